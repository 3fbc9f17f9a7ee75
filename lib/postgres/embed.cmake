# Puts migrations/NNNN_name.sql into the library as text: names, contents, SHA-256. Run again whenever a file is added or changes.
function(outboxd_embed_migrations target directory)
  file(GLOB files CONFIGURE_DEPENDS ${directory}/[0-9][0-9][0-9][0-9]_*.sql)
  list(SORT files)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/embedded_migrations.cpp)
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DOUT=${out} -P ${OUTBOXD_EMBED_SCRIPT}
    DEPENDS ${files} ${OUTBOXD_EMBED_SCRIPT}
    VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()

set(OUTBOXD_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/embed_migrations.cmake CACHE INTERNAL "")

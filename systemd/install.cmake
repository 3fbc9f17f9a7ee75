# Where Debian wants things. Included by the top-level CMakeLists.txt:
#   cmake --install build/release --prefix /usr        (DESTDIR is honoured)
# binary -> bin, unit -> lib/systemd/system, account -> lib/sysusers.d, sample configuration -> /etc/outboxd.
install(TARGETS outboxd RUNTIME DESTINATION bin)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/outboxd.sysusers.conf DESTINATION lib/sysusers.d RENAME outboxd.conf)
install(FILES ${PROJECT_SOURCE_DIR}/config/outboxd.yaml ${PROJECT_SOURCE_DIR}/config/outboxd.minimal.yaml
  DESTINATION share/doc/outboxd/examples)
if(EXISTS ${PROJECT_SOURCE_DIR}/README.md)
  install(FILES ${PROJECT_SOURCE_DIR}/README.md DESTINATION share/doc/outboxd)
endif()

# Below /usr the configuration belongs to /etc, below any other prefix to that prefix; the prefix is known only when the
# installation runs. A configuration that is there already is an operator's and is left alone.
install(CODE "
  set(sample \"${PROJECT_SOURCE_DIR}/config/outboxd.yaml\")
  set(unit \"${CMAKE_CURRENT_LIST_DIR}/outboxd.service\")
  set(staging \"${CMAKE_CURRENT_BINARY_DIR}\")")
install(CODE [[
  if(CMAKE_INSTALL_PREFIX MATCHES "^/usr/?$")
    set(etc /etc)
  else()
    set(etc "${CMAKE_INSTALL_PREFIX}/etc")
  endif()
  if(EXISTS "$ENV{DESTDIR}${etc}/outboxd/outboxd.yaml")
    message(STATUS "Kept: $ENV{DESTDIR}${etc}/outboxd/outboxd.yaml")
  else()
    file(INSTALL DESTINATION "${etc}/outboxd" TYPE FILE FILES "${sample}" RENAME outboxd.yaml)
  endif()
  file(READ "${unit}" text)
  string(REPLACE "/usr/bin/outboxd" "${CMAKE_INSTALL_PREFIX}/bin/outboxd" text "${text}")
  string(REPLACE "/etc/outboxd/" "${etc}/outboxd/" text "${text}")
  file(WRITE "${staging}/installed/outboxd.service" "${text}")
  file(INSTALL DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/systemd/system" TYPE FILE FILES "${staging}/installed/outboxd.service")
]])

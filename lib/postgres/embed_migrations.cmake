# Script: cmake -DFILES=a.sql;b.sql -DOUT=embedded_migrations.cpp -P embed_migrations.cmake
set(items "")
set(body "")
set(count 0)
foreach(path IN LISTS FILES)
  get_filename_component(file ${path} NAME_WE)
  string(REGEX MATCH "^([0-9]+)_(.+)$" _ ${file})
  set(number ${CMAKE_MATCH_1})
  set(name ${CMAKE_MATCH_2})
  math(EXPR count "${count} + 1")
  string(REGEX REPLACE "^0+" "" version ${number})
  if(NOT version EQUAL count)
    message(FATAL_ERROR "migrations must be numbered without gaps: ${file} stands at place ${count}")
  endif()
  file(SHA256 ${path} checksum)
  file(READ ${path} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  file(STRINGS ${path} first LIMIT_COUNT 1)
  set(in_transaction true)
  if(first MATCHES "^-- no-transaction")
    set(in_transaction false)
  endif()
  string(APPEND body "constexpr unsigned char text_${version}[] = {${bytes}0};\n")
  string(APPEND items "    {${version}, \"${name}\", {reinterpret_cast<const char*>(text_${version}), sizeof text_${version} - 1}, \"${checksum}\", ${in_transaction}},\n")
endforeach()
file(WRITE ${OUT}.new "// Made from migrations/*.sql by embed_migrations.cmake.
#include \"postgres/migrations.hpp\"

namespace outboxd::postgres {

namespace {

${body}
const migration all[] = {
${items}};

}  // namespace

std::span<const migration> migrations() { return all; }
int newest_migration() { return all[sizeof all / sizeof all[0] - 1].version; }

}  // namespace outboxd::postgres
")
file(RENAME ${OUT}.new ${OUT})

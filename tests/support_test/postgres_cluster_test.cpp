#include "support/catch.hpp"
#include "support/postgres_cluster.hpp"
#include "support/tls_material.hpp"

#include <future>

using namespace outboxd::testkit;

TEST_CASE("a shared cluster makes databases that hold nothing and speak UTF8") {
  postgres_cluster& cluster = postgres_cluster::shared();
  const std::string first = cluster.create_database();
  const std::string second = cluster.create_database();
  query(first, "CREATE TABLE only_here (id int)");
  CHECK(query_value(second, "SELECT count(*) FROM pg_tables WHERE tablename = 'only_here'") == "0");
  CHECK(query_value(first, "SHOW server_encoding") == "UTF8");
  CHECK_THROWS_WITH(query(first, "SELECT 1/0"), Catch::Matchers::Contains("22012"));
}

TEST_CASE("a cluster that was crashed comes back on its port with its committed rows") {
  postgres_cluster cluster;
  const std::string uri = cluster.create_database();
  query(uri, "CREATE TABLE kept (id int); INSERT INTO kept VALUES (1), (2)");
  cluster.stop(stop_mode::immediate);
  CHECK_THROWS(query(uri, "SELECT 1"));
  cluster.start();
  CHECK(query_value(uri, "SELECT count(*) FROM kept") == "2");
}

TEST_CASE("a frozen cluster answers nobody until it is thawed") {
  postgres_cluster cluster;
  const std::string uri = cluster.create_database();
  held_session session(uri);
  cluster.freeze();
  auto answer = std::async(std::launch::async, [&] { return session.query("SELECT 1"); });
  CHECK(answer.wait_for(std::chrono::milliseconds{300}) == std::future_status::timeout);
  cluster.thaw();
  CHECK(answer.get().size() == 1);
}

TEST_CASE("a cluster with a certificate offers TLS") {
  const certificate_authority authority;
  const temporary_directory directory;
  cluster_options options;
  options.certificate_pem = authority.for_localhost().certificate_pem;
  const certificate identity = authority.for_localhost();
  options.certificate_pem = identity.certificate_pem;
  options.key_pem = identity.key_pem;
  postgres_cluster cluster(options);
  const auto root = directory.write("root.pem", authority.certificate_pem());
  const std::string uri = cluster.uri("postgres") + "?sslmode=verify-full&sslrootcert=" + root.string();
  CHECK(query_value(uri, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == "t");
}

TEST_CASE("a waiting test sees a value that another session commits") {
  const std::string uri = postgres_cluster::shared().create_database();
  query(uri, "CREATE TABLE seen (id int)");
  auto seen = std::async(std::launch::async, [&] { return wait_for_value(uri, "SELECT count(*) FROM seen", "1"); });
  query(uri, "INSERT INTO seen VALUES (1)");
  CHECK(seen.get());
  CHECK_FALSE(wait_for_value(uri, "SELECT count(*) FROM seen", "2", std::chrono::milliseconds{50}));
}

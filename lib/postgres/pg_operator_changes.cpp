// The operator's hand work: deliveries, replay, endpoints, retention. The session and what is only read stand in pg_operator_store.cpp.
#include "postgres/operator_rows.hpp"
#include "postgres/pg_operator_store.hpp"

namespace outboxd::postgres {
namespace {

// SQL NULL leaves the column as it is.
void put_list(params& p, const std::optional<std::vector<std::string>>& list) {
    if (list) {
        p.text_array(*list);
    } else {
        p.null();
    }
}

}  // namespace

ports::async_result<ports::retry_reply> pg_operator_store::ask_for_reply(const std::string& sql, std::int64_t delivery) {
    params p;
    p.int8(delivery);
    const auto r = co_await ask(sql, std::move(p));
    if (!r) co_return r.error();
    co_return ports::retry_reply{delivery, r->string(0, 0)};
}

ports::async_result<ports::retry_reply> pg_operator_store::retry(std::int64_t delivery) {
    return ask_for_reply(sql_.retry, delivery);
}
ports::async_result<ports::retry_reply> pg_operator_store::cancel(std::int64_t delivery) {
    return ask_for_reply(sql_.cancel, delivery);
}
ports::async_result<ports::retry_reply> pg_operator_store::unblock(std::int64_t delivery) {
    return ask_for_reply(sql_.unblock, delivery);
}

ports::async_result<ports::replay_page> pg_operator_store::replay_candidates(ports::replay_filter filter) {
    params p;
    p.int8(filter.after).text(filter.type).text(filter.tenant);
    put_moment(p, filter.since);
    put_moment(p, filter.until);
    p.text(filter.endpoint).text(filter.status).int8(filter.scan);
    const auto r = co_await ask(filter.status == "failed" ? sql_.replay_failed : sql_.replay_scan, std::move(p));
    if (!r) co_return r.error();
    ports::replay_page page;
    for (int row = 0; row < r->rows(); ++row) {
        if (r->is_null(row, 0)) {
            page.next_after = r->integer(row, 5);
            page.end = r->integer(row, 6) < filter.scan;
        } else {
            page.found.push_back({r->integer(row, 0), r->string(row, 1), r->string(row, 2), r->string(row, 3), r->optional_string(row, 4)});
        }
    }
    co_return page;
}

ports::async_result<std::vector<ports::replay_row>> pg_operator_store::replay(std::vector<ports::replay_target> targets) {
    params p;
    p.begin_array(type_oid::int8_array, targets.size());
    for (const auto& t : targets) p.element(t.event);
    p.begin_array(type_oid::text_array, targets.size());
    for (const auto& t : targets) {
        if (t.endpoint) {
            p.element(std::string_view{*t.endpoint});
        } else {
            p.element_null();
        }
    }
    const auto r = co_await ask(sql_.replay, std::move(p));
    if (!r) co_return r.error();
    std::vector<ports::replay_row> rows;
    for (int row = 0; row < r->rows(); ++row) {
        // A claimed row may be on the wire: what is being sent is the old effort, so the replay is refused and said so.
        const bool claimed = !r->is_null(row, 5);
        rows.push_back({r->integer(row, 0), r->integer(row, 1), r->optional_string(row, 2), r->string(row, 3),
                        claimed ? "claimed by relay " + r->string(row, 5) : r->string(row, 4)});
    }
    co_return rows;
}

ports::async_result<std::string> pg_operator_store::copy_event(std::int64_t event, std::optional<std::string> endpoint) {
    params p;
    p.int8(event).text(endpoint);
    const auto r = co_await ask(sql_.copy_event, std::move(p));
    if (!r) co_return r.error();
    if (r->rows() == 0) co_return not_found("no event with id " + std::to_string(event));
    co_return r->string(0, 0);
}

ports::async_result<std::vector<ports::endpoint_view>> pg_operator_store::list_endpoints() {
    const auto r = co_await ask(sql_.list_endpoints, params{});
    if (!r) co_return r.error();
    co_return all_rows<ports::endpoint_view>(*r, endpoint_from);
}

ports::async_result<ports::endpoint_view> pg_operator_store::show_endpoint(std::string name) {
    params p;
    p.text(std::string_view{name});
    auto r = co_await ask(sql_.show_endpoint, p);
    if (!r) co_return r.error();
    if (r->rows() == 0) co_return not_found("no endpoint named '" + name + "'");
    auto view = endpoint_from(*r, 0);
    r = co_await ask(sql_.secrets, std::move(p));
    if (!r) co_return r.error();
    for (int row = 0; row < r->rows(); ++row) view.secrets.push_back({r->integer(row, 0), moment_at(*r, row, 1), moment_at(*r, row, 2)});
    co_return view;
}

ports::async_result<void> pg_operator_store::add_endpoint(ports::new_endpoint what) {
    params p;
    p.text(std::string_view{what.name})
        .text(std::string_view{what.url})
        .text(what.tenant_id)
        .text_array(what.events)
        .jsonb(what.settings)
        .boolean(what.enabled);
    if (what.secret) {
        p.typed_text(what.secret->reveal());
    } else {
        p.typed_text(std::optional<std::string>{});
    }
    const auto r = co_await ask(sql_.add_endpoint, std::move(p));
    if (!r) co_return r.error();
    if (r->rows() == 0)
        co_return base::make_error(base::errc::refused, "an endpoint named '" + what.name + "' exists already; 'outboxd endpoint set' changes it");
    co_return base::result<void>{};
}

ports::async_result<std::string> pg_operator_store::endpoint_settings(std::string name) {
    params p;
    p.text(std::string_view{name});
    const auto r = co_await ask(sql_.endpoint_settings, std::move(p));
    if (!r) co_return r.error();
    if (r->rows() == 0) co_return not_found("no endpoint named '" + name + "'");
    co_return r->string(0, 0);
}

asio::awaitable<base::result<void>> pg_operator_store::change_one(const std::string& sql, params p, std::string name) {
    const auto r = co_await ask(sql, std::move(p));
    if (!r) co_return r.error();
    if (r->affected() == 0) co_return not_found("no endpoint named '" + name + "'");
    co_return base::result<void>{};
}

ports::async_result<void> pg_operator_store::change_endpoint(std::string name, ports::endpoint_change change) {
    params p;
    p.text(std::string_view{name}).typed_text(change.url);
    if (change.settings) {
        p.jsonb(*change.settings);
    } else {
        p.null();
    }
    p.boolean(change.tenant_id.has_value()).typed_text(change.tenant_id.value_or(std::nullopt));
    put_list(p, change.events);
    return change_one(sql_.change_endpoint, std::move(p), std::move(name));
}

ports::async_result<void> pg_operator_store::set_enabled(std::string name, bool enabled, std::string reason) {
    params p;
    p.text(std::string_view{name}).boolean(enabled).typed_text(std::string_view{reason});
    return change_one(sql_.set_enabled, std::move(p), std::move(name));
}

ports::async_result<void> pg_operator_store::set_paused(std::string name, bool paused) {
    params p;
    p.text(std::string_view{name}).boolean(paused);
    return change_one(sql_.set_paused, std::move(p), std::move(name));
}

ports::async_result<ports::operator_store::removal> pg_operator_store::remove_endpoint(std::string name) {
    params p;
    p.text(std::string_view{name});
    const auto r = co_await ask(sql_.remove_endpoint, std::move(p));
    if (!r) co_return r.error();
    removal step;
    step.cancelled = r->integer(0, 0);
    step.gone = r->boolean(0, 1);
    co_return step;
}

ports::async_result<void> pg_operator_store::rotate_secret(std::string name, base::secret fresh, base::milliseconds old_ones_for) {
    params p;
    p.text(std::string_view{name}).typed_text(fresh.reveal()).interval(old_ones_for);
    return change_one(sql_.rotate_secret, std::move(p), std::move(name));
}

ports::async_result<ports::endpoint_row> pg_operator_store::endpoint_for_test(std::string name) {
    params p;
    p.text(std::string_view{name});
    auto r = co_await ask(sql_.endpoint_for_test, p);
    if (!r) co_return r.error();
    if (r->rows() == 0) co_return not_found("no endpoint named '" + name + "'");
    ports::endpoint_row row;
    row.name = name;
    row.url = r->string(0, 0);
    row.tenant_id = r->optional_string(0, 1);
    row.enabled = r->boolean(0, 2);
    row.paused = r->boolean(0, 3);
    row.disabled_reason = r->string(0, 4);
    row.settings = r->string(0, 5);
    row.managed_by = r->string(0, 6);
    r = co_await ask(sql_.secrets_for_test, std::move(p));
    if (!r) co_return r.error();
    for (int i = 0; i < r->rows(); ++i) {
        const auto left = r->optional_integer(i, 1);
        row.secrets.emplace_back(r->string(i, 0), left ? std::optional<base::milliseconds>{*left} : std::nullopt);
    }
    co_return row;
}

ports::async_result<ports::purge_counts> pg_operator_store::purge(base::milliseconds published, base::milliseconds failed, base::milliseconds attempts,
                                                                  int batch) {
    params p;
    p.interval(published).interval(failed).interval(attempts).int4(batch);
    const auto r = co_await ask(sql_.purge, std::move(p));
    if (!r) co_return r.error();
    const auto at = co_await ask(sql_.purge_position, params{});
    if (!at) co_return at.error();
    co_return ports::purge_counts{r->integer(0, 0), r->integer(0, 1), r->integer(0, 2), at->integer(0, 0), at->integer(0, 1), at->integer(0, 2)};
}

}  // namespace outboxd::postgres

/* Readers of one file, and the guard. */
#include "tests/faults/run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- readers ---- */

enum { N_FIRST = 30, N_LATER = 150 };
static struct tamis_filter *reader;

static void add_keys(struct run *r, struct tamis_writer *w, uint64_t from, uint64_t to)
{
    uint64_t hashes[256];
    hashes_of(from, to - from, hashes);
    CHECK(tamis_writer_add_hashes(w, tamis_writer_domain(w).tag, hashes,
                                  (size_t)(to - from)) == 0 &&
              tamis_writer_commit(w, to, NULL) == 0,
          "%s: writing", r->dir);
}

static void reader_prepare(struct run *r)
{
    struct tamis_writer *w;
    struct tamis_writer_options opt = {.size = sizeof opt, .growth = {0.001, 2, 0, 40}};
    CHECK(tamis_writer_create(in_dir(r, "f"), &opt, &w, &r->diag) == 0, "%s",
          r->diag.what);
    add_keys(r, w, 0, N_FIRST);
    tamis_writer_close(w);
}

/* Growth under a reader's eyes: it must notice, or say MAYBE. */
static void reader_body(struct run *r)
{
    struct tamis_writer *w;
    reader = NULL;
    if (MAY(r, tamis_filter_open(in_dir(r, "f"), NULL, &reader, &r->diag)) == 0)
        expect_none_absent(reader, N_FIRST);
    CHECK(tamis_writer_open(in_dir(r, "f"), &w, &r->diag) == 0, "%s", r->diag.what);
    add_keys(r, w, N_FIRST, N_LATER);
    if (reader)
        expect_none_absent(reader, N_LATER);
    tamis_writer_close(w);
    if (reader)
        MAY(r, filter_unlock_beyond(reader, 0)); /* lets go of the older view, too */
    if (reader)
        expect_none_absent(reader, N_LATER);
}

static void reader_check(struct run *r)
{
    if (reader)
        expect_numbers(reader, N_LATER);
    IN_LIB_VOID(tamis_filter_close(reader));
    expect_file(r, in_dir(r, "f"), N_LATER);
}

static void sealed_prepare(struct run *r)
{
    struct tamis_builder_options opt = {.size = sizeof opt, .error = 0.0001};
    struct tamis_builder *b;
    uint64_t hashes[N_LATER], n = N_LATER;
    hashes_of(0, n, hashes);
    CHECK(tamis_builder_create(&opt, &b, NULL) == 0, "preparing");
    tamis_builder_add_hashes(b, tamis_builder_domain(b).tag, hashes, n);
    CHECK(tamis_builder_finish_file(b, in_dir(r, "sealed"), NULL) == 0, "preparing");
    tamis_builder_free(b);
    reader_prepare(r);
}

static void take_field(void *ctx, const struct tamis_field *field)
{
    (void)field;
    ++*(unsigned *)ctx;
}

static void ask(struct run *r, struct tamis_filter *f, uint64_t n)
{
    struct tamis_filter_info info;
    struct tamis_stage_info stage;
    struct tamis_verify report;
    struct tamis_snapshot *snapshot;
    expect_none_absent(f, n);
    if (MAY(r, tamis_filter_info(f, &info)) == 0)
        CHECK(info.n_stages > 0 && info.keys > 0, "info says nothing");
    MAY(r, tamis_filter_stage(f, 0, &stage));
    if (MAY(r, tamis_filter_verify(f, &report, &r->diag)) == 0)
        CHECK(report.n_pages > 0, "nothing was verified");
    if (MAY(r, tamis_snapshot_from_filters(&f, 1, &snapshot)) == 0) {
        struct tamis_key key =
            tamis_key_of_hash(tamis_filter_domain(f).tag, hash_of(0));
        CHECK(IN_LIB(tamis_snapshot_probe_all(snapshot, &key, NULL, NULL)) ==
                  TAMIS_MAYBE,
              "lost: key 0 is ABSENT in a snapshot");
        IN_LIB_VOID(tamis_snapshot_release(snapshot));
    }
}

static void open_and_ask(struct run *r, const char *name, enum tamis_check check,
                         uint64_t n)
{
    struct tamis_filter_options opt = {.size = sizeof opt, .check = check};
    struct tamis_filter *f;
    if (MAY(r, tamis_filter_open(in_dir(r, name), &opt, &f, &r->diag)) != 0) {
        CHECK(!f, "it failed, and has a filter");
        return;
    }
    ask(r, f, n);
    IN_LIB_VOID(tamis_filter_close(f));
}

static void ask_body(struct run *r)
{
    unsigned n = 0;
    open_and_ask(r, "sealed", TAMIS_CHECK_FULL, N_LATER);
    open_and_ask(r, "sealed", TAMIS_CHECK_STRICT, N_LATER);
    open_and_ask(r, "f", TAMIS_CHECK_FULL, N_FIRST);
    open_and_ask(r, "f", TAMIS_CHECK_NONE, N_FIRST);
    if (MAY(r, tamis_file_fields(in_dir(r, "f"), 0, take_field, &n, &r->diag)) == 0)
        CHECK(n > 50, "only %u fields", n);
}

static void ask_check(struct run *r)
{
    expect_file(r, in_dir(r, "sealed"), N_LATER);
    expect_file(r, in_dir(r, "f"), N_FIRST);
}

/* Large enough for advice against reading ahead, and for reading it all the same. */
static void large_prepare(struct run *r)
{
    struct tamis_builder_options opt = {.size = sizeof opt, .error = 1e-8};
    struct tamis_builder *b;
    uint64_t hashes[1000];
    CHECK(tamis_builder_create(&opt, &b, NULL) == 0, "preparing");
    for (uint64_t i = 0; i < 250000; i += 1000) {
        hashes_of(i, 1000, hashes);
        tamis_builder_add_hashes(b, tamis_builder_domain(b).tag, hashes, 1000);
    }
    CHECK(tamis_builder_finish_file(b, in_dir(r, "large"), NULL) == 0, "preparing");
    tamis_builder_free(b);
}

static void bring_in(struct run *r, struct tamis_filter *f)
{
    struct tamis_residency in;
    int rc = MAY(r, tamis_filter_warm(f, NULL, NULL));
    if (MAY(r, tamis_filter_residency(f, &in)) == 0)
        CHECK(in.n_pages > 256 && (rc || in.n_resident == in.n_pages),
              "%llu of %llu pages are warm", (unsigned long long)in.n_resident,
              (unsigned long long)in.n_pages);
    else
        CHECK(in.n_pages == 0 && in.n_resident == 0, "it failed, and counts");
}

static void large_body(struct run *r)
{
    struct tamis_filter *f;
    if (MAY(r, tamis_filter_open(in_dir(r, "large"), NULL, &f, &r->diag)) != 0)
        return;
    expect_none_absent(f, 1000);
    bring_in(r, f);
    expect_none_absent(f, 1000);
    IN_LIB_VOID(tamis_filter_close(f));
}

static void large_check(struct run *r)
{
    struct tamis_filter *f;
    MUST(r, tamis_filter_open(in_dir(r, "large"), NULL, &f, &r->diag));
    expect_numbers(f, 1000);
    IN_LIB_VOID(tamis_filter_close(f));
}

/* ---- the guard ---- */

static void (*before)(int); /* a sanitizer may have one of its own */

static void (*handler(void))(int)
{
    struct sigaction now;
    return sigaction(SIGBUS, NULL, &now) == 0 ? now.sa_handler : NULL;
}

static void guard_prepare(struct run *r)
{
    (void)r;
    before = handler();
}

static void guard_body(struct run *r)
{
    if (MAY(r, tamis_guard_install(&r->diag)) == 0) {
        CHECK(handler() != before, "installed, and no handler is there");
        IN_LIB_VOID(tamis_guard_remove());
    } else {
        CHECK(handler() == before, "it failed, and left a handler");
    }
}

static void guard_check(struct run *r)
{
    MUST(r, tamis_guard_install(&r->diag));
    CHECK(handler() != before, "installed, and no handler is there");
    IN_LIB_VOID(tamis_guard_remove());
    CHECK(handler() == before, "removed, and the handler is still there");
}

const struct scenario filter_scenarios[] = {
    SCENARIO("reader", NULL, .prepare = reader_prepare, .body = reader_body,
             .check = reader_check),
    SCENARIO("ask", NULL, .prepare = sealed_prepare, .body = ask_body,
             .check = ask_check),
    SCENARIO("guard", NULL, .prepare = guard_prepare, .body = guard_body,
             .check = guard_check, .cold = true),
    SCENARIO("large", NULL, .prepare = large_prepare, .body = large_body,
             .check = large_check, .cold = true),
    {0},
};

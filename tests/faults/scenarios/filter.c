/* Builders and readers. */
#include "tests/faults/run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FEW_BUILT = 1100, MANY_BUILT = 900000 };

/* ---- a builder that spools ---- */

static struct tamis_builder *builder;
static bool finished;
static uint64_t memory_limit, n_built;
static double error;
static bool gets_around; /* what fails in every run is no reason to fail */

static int make_builder(struct run *r)
{
    struct tamis_builder_options opt = {.size = sizeof opt,
                                        .memory_limit = memory_limit,
                                        .spool_dir = r->dir,
                                        .error = error,
                                        .n_threads = 3};
    builder = NULL;
    return TRY(r, tamis_builder_create(&opt, &builder, &r->diag));
}

static int fill_builder(struct run *r)
{
    uint64_t hashes[100], tag = tamis_builder_domain(builder).tag;
    for (uint64_t i = 0; i < n_built; i += 100) {
        hashes_of(i, 100, hashes);
        int rc = TRY(r, tamis_builder_add_hashes(builder, tag, hashes, 100));
        if (rc) {
            /* It stays failed: half of the keys would be a lie. */
            const char *path = in_dir(r, "built");
            CHECK(IN_LIB(tamis_builder_finish_file(builder, path, NULL)) != 0,
                  "a builder that lost keys finishes");
            return rc;
        }
    }
    return 0;
}

static void drop_builder(void)
{
    IN_LIB_VOID(tamis_builder_free(builder));
    builder = NULL;
}

/* The least that there can be. */
static void little_memory(struct run *r)
{
    (void)r;
    memory_limit = 1;
    n_built = FEW_BUILT;
    error = 1e-8;
    gets_around = false;
}

static void no_unnamed_files(struct run *r)
{
    little_memory(r);
    gets_around = true;
}

/* Allowed, and not to be had: the builder spools with what it has. */
static void much_memory(struct run *r)
{
    little_memory(r);
    memory_limit = 64 << 10;
    gets_around = true;
}

/* So many that there is something to share out, and to map. */
static void many_keys(struct run *r)
{
    little_memory(r);
    memory_limit = 64 << 20;
    n_built = MANY_BUILT;
    error = 0.01;
}

static void build_body(struct run *r)
{
    finished = false;
    if (make_builder(r) != 0)
        return;
    if (fill_builder(r) != 0)
        drop_builder();
    else
        finished = TRY(r, tamis_builder_finish_file(builder, in_dir(r, "built"),
                                                    &r->diag)) == 0;
}

static void build_check(struct run *r)
{
    const char *path = in_dir(r, "built");
    CHECK(finished || !is_there(path) || r->littered, "it failed, and left its file");
    CHECK(finished || r->plan || !gets_around, "it does not get around it");
    if (!finished) {
        unlink(path);
        if (!builder) {
            CHECK(make_builder(r) == 0 && fill_builder(r) == 0, "no second builder");
        }
        MUST(r, tamis_builder_finish_file(builder, path, &r->diag));
    }
    expect_file(r, path, n_built);
    drop_builder();
    if (!r->littered)
        expect_names(r->dir, (const char *const[]){"built", NULL});
}

/* ---- in a file of the engine's ---- */

static int engine_fd;
static uint64_t embedded_bytes;

static void embed_prepare(struct run *r)
{
    uint8_t page[4096];
    little_memory(r);
    memset(page, 'e', sizeof page);
    engine_fd = open(in_dir(r, "engine"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    CHECK(pwrite(engine_fd, page, sizeof page, 0) == sizeof page, "engine's file");
}

static void embed_body(struct run *r)
{
    finished = false;
    if (make_builder(r) != 0)
        return;
    if (fill_builder(r) != 0)
        drop_builder();
    else
        finished = TRY(r, tamis_builder_finish_fd(builder, engine_fd, 4096,
                                                  &embedded_bytes, &r->diag)) == 0;
}

static void embed_check(struct run *r)
{
    uint8_t page[4096];
    struct tamis_filter *f;
    CHECK(finished || !builder || embedded_bytes == 0, "a length, and it failed");
    if (!finished) {
        if (!builder)
            CHECK(make_builder(r) == 0 && fill_builder(r) == 0, "no second builder");
        MUST(r, tamis_builder_finish_fd(builder, engine_fd, 4096, &embedded_bytes,
                                        &r->diag));
    }
    MUST(r, tamis_filter_open_fd(engine_fd, 4096, embedded_bytes, NULL, &f, &r->diag));
    expect_numbers(f, n_built);
    IN_LIB_VOID(tamis_filter_close(f));
    CHECK(pread(engine_fd, page, sizeof page, 0) == sizeof page, "engine's file");
    for (size_t i = 0; i < sizeof page; i++)
        CHECK(page[i] == 'e', "the engine's own bytes were overwritten");
    close(engine_fd);
    drop_builder();
}

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
    if (TRY(r, tamis_filter_open(in_dir(r, "f"), NULL, &reader, &r->diag)) == 0)
        expect_none_absent(reader, N_FIRST);
    CHECK(tamis_writer_open(in_dir(r, "f"), &w, &r->diag) == 0, "%s", r->diag.what);
    add_keys(r, w, N_FIRST, N_LATER);
    if (reader)
        expect_none_absent(reader, N_LATER);
    tamis_writer_close(w);
    uint64_t none = 0;
    if (reader)
        TRY(r, tamis_filter_lock(reader, &none)); /* lets go of the older view, too */
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
    if (TRY(r, tamis_filter_info(f, &info)) == 0)
        CHECK(info.n_stages > 0 && info.keys > 0, "info says nothing");
    TRY(r, tamis_filter_stage(f, 0, &stage));
    if (TRY(r, tamis_filter_verify(f, &report, &r->diag)) == 0)
        CHECK(report.n_pages > 0, "nothing was verified");
    if (TRY(r, tamis_snapshot_from_filters(&f, 1, &snapshot)) == 0) {
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
    if (TRY(r, tamis_filter_open(in_dir(r, name), &opt, &f, &r->diag)) != 0) {
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
    if (TRY(r, tamis_file_fields(in_dir(r, "f"), 0, take_field, &n, &r->diag)) == 0)
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
    enum { BUDGET = 65536 };
    struct tamis_residency in;
    uint64_t budget = BUDGET, none = 0;
    int rc = TRY(r, tamis_filter_warm(f, NULL, NULL));
    if (TRY(r, tamis_filter_residency(f, &in)) == 0)
        CHECK(in.n_pages > 256 && (rc || in.n_resident == in.n_pages),
              "%llu of %llu pages are warm", (unsigned long long)in.n_resident,
              (unsigned long long)in.n_pages);
    else
        CHECK(in.n_pages == 0 && in.n_resident == 0, "it failed, and counts");
    if (TRY(r, tamis_filter_lock(f, &budget)) == 0)
        CHECK(budget == 0, "%llu bytes are not locked", (unsigned long long)budget);
    CHECK(budget <= BUDGET, "the budget grew");
    TRY(r, tamis_filter_lock(f, &none));
}

static void large_body(struct run *r)
{
    struct tamis_filter *f;
    if (TRY(r, tamis_filter_open(in_dir(r, "large"), NULL, &f, &r->diag)) != 0)
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
    if (TRY(r, tamis_guard_install(&r->diag)) == 0) {
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
    {"build", little_memory, build_body, build_check, false, false, NULL},
    {"build-old", little_memory, build_body, build_check, true, false, NULL},
    {"build-many", many_keys, build_body, build_check, false, false, NULL},
    {"embed", embed_prepare, embed_body, embed_check, false, false, NULL},
    {"reader", reader_prepare, reader_body, reader_check, false, false, NULL},
    {"ask", sealed_prepare, ask_body, ask_check, false, false, NULL},
    {"guard", guard_prepare, guard_body, guard_check, false, true, NULL},
    {"large", large_prepare, large_body, large_check, false, true, NULL},
    {"build-fails", little_memory, build_body, build_check, false, false,
     "renameat2:1:EIO:ever"},
    {"build-starved", little_memory, build_body, build_check, false, false,
     "realloc:1:ENOMEM:ever"},
    {"build-short", much_memory, build_body, build_check, false, false,
     "realloc:2:ENOMEM:ever"},
    {"build-eisdir", no_unnamed_files, build_body, build_check, false, false,
     "open:1:EISDIR:once"},
    {"build-einval", no_unnamed_files, build_body, build_check, false, false,
     "open:1:EINVAL:once"},
    {0},
};

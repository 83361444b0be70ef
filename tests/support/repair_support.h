/* For tests of repair and backup: findings as text, trees as numbers, and
 * stores with a bit of everything. */
#ifndef TAMIS_TESTS_REPAIR_SUPPORT_H
#define TAMIS_TESTS_REPAIR_SUPPORT_H

#include "store_support.h"

/* ---- a file that cannot be read ---- */

SHARED ino_t unreadable; /* io_calls.pread of this file fails */

static UNUSED ssize_t unreadable_pread(int fd, void *buf, size_t n, off_t at)
{
    struct stat st;
    OK(fstat(fd, &st));
    if (st.st_ino == unreadable)
        return errno = EIO, -1;
    return calls_before.pread(fd, buf, n, at);
}

/* ---- findings ---- */

struct seen {
    size_t n, n_errors;
    char text[256][700]; /* "action name file what" */
};
SHARED struct seen seen;

static UNUSED void see(void *ctx, const struct tamis_repair_finding *f)
{
    assert_true(seen.n < 256);
    seen.n_errors = (seen.n ? seen.n_errors : 0) + (f->error != 0);
    snprintf(seen.text[seen.n++], sizeof seen.text[0], "%s %.*s %s %s", f->action_name,
             (int)f->name_bytes, f->name ? (const char *)f->name : "", f->file,
             f->what);
}

static UNUSED bool saw(const char *words)
{
    for (size_t i = 0; i < seen.n; i++)
        if (strstr(seen.text[i], words))
            return true;
    return false;
}

static UNUSED void show_seen(void)
{
    for (size_t i = 0; i < seen.n; i++)
        print_message("  %s\n", seen.text[i]);
}

#define SAW(words)                                                                     \
    do {                                                                               \
        if (!saw(words)) {                                                             \
            show_seen();                                                               \
            fail_msg("nothing says '%s'", words);                                      \
        }                                                                              \
    } while (0)

static UNUSED int repair_code(const char *store, int dry_run, const uint8_t *uuid,
                              struct tamis_repair_report *report,
                              struct tamis_diag *diag)
{
    struct tamis_repair_options opt = {.size = sizeof opt,
                                       .dry_run = dry_run,
                                       .found = see,
                                       .store_uuid = uuid,
                                       .timeout_ms = -1};
    seen.n = 0;
    return tamis_store_repair(path_of(store), &opt, report, diag);
}

static UNUSED struct tamis_repair_report repair(const char *store)
{
    struct tamis_repair_report report;
    struct tamis_diag diag = {0};
    if (repair_code(store, 0, NULL, &report, &diag) != 0)
        fail_msg("%s: %s", diag.file, diag.what);
    return report;
}

static UNUSED uint64_t n_done(const struct tamis_repair_report *r)
{
    return r->n_finished + r->n_rebuilt + r->n_quarantined + r->n_swept;
}

/* ---- trees ---- */

/* A second repair must find nothing to do, and do nothing. */
static UNUSED void check_settled(const char *store)
{
    uint64_t before = tree_of(store);
    struct tamis_repair_report r = repair(store);
    if (n_done(&r)) {
        show_seen();
        fail_msg("a second repair does %llu things", (unsigned long long)n_done(&r));
    }
    assert_true(tree_of(store) == before);
}

/* Closes the store "s" and removes it and its backup "b". */
static UNUSED void remove_both(struct tamis_store *s)
{
    tamis_store_close(s);
    remove_tree("s");
    remove_tree("b");
}

/* ---- segments ---- */

static UNUSED void grow_keys(struct tamis_store *s, const char *name, uint64_t first,
                             uint64_t n, uint64_t watermark)
{
    WRITER w = writer_of(s, name);
    add_keys(w, first, n);
    OK(tamis_writer_commit(w, watermark, NULL));
}

/* ---- a writer that is killed ---- */

struct killed_writer {
    const char *store;
    uint64_t first;
};

static UNUSED int die_writing(void *ctx)
{
    const struct killed_writer *k = ctx;
    struct tamis_store *s = store_open(k->store);
    struct tamis_writer *w = writer_of(s, "g");
    add_keys(w, k->first, 100);
    OK(tamis_writer_commit(w, 9, NULL));
    _exit(0);
}

/* Segment g's writer has added 100 keys and committed them as of watermark 9, and is
 * gone: its file is unclean. */
static UNUSED void kill_writer(const char *store, uint64_t first)
{
    struct killed_writer k = {store, first};
    in_child(die_writing, &k);
}

/* ---- answers ---- */

/* No key that was put may be absent: from its segment, or from all. */
static UNUSED void check_keys(struct tamis_store *s, const char *name, uint64_t first,
                              uint64_t n)
{
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_target t;
    tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t);
    FILTER f = NULL; /* asked, too: a list may not be confirmed */
    if (t.ordinal)
        tamis_snapshot_filter(snap, t.ordinal - 1, &f, NULL);
    for (uint64_t i = first; i < first + n; i++) {
        struct tamis_key key = key_in(s, i);
        IS(tamis_snapshot_probe(snap, &t, &key, NULL), TAMIS_MAYBE);
        if (f)
            IS(tamis_filter_probe(f, &key, NULL), TAMIS_MAYBE);
        IS(ASK(snap, ALL, KEYS(&key, 1)), TAMIS_MAYBE);
    }
}

static UNUSED enum tamis_answer everywhere(struct tamis_store *s, uint64_t i)
{
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_key key = key_in(s, i);
    return ASK(snap, ALL, KEYS(&key, 1)) ? TAMIS_ABSENT : TAMIS_MAYBE;
}

static UNUSED const char *aside_of(const char *store, const char *file)
{
    static char path[4][1200];
    static unsigned next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/quarantine/%s", path_of(store),
             strrchr(file, '/') + 1);
    return p;
}

/* Clears the bytes of the first page of a growing filter's first stage that has bits:
 * the page is below its floors then. */
static UNUSED void lose_page(const char *path)
{
    struct commit c = commit_of(path);
    size_t n;
    static const uint8_t zeros[PAGE_BYTES];
    FREED uint8_t *bytes = file_read(path, &n);
    for (uint64_t at = c.stages[0].offset;; at += PAGE_BYTES) {
        assert_true(at < c.stages[0].offset + c.stages[0].length);
        if (all_zero(bytes + at, PAGE_BYTES))
            continue;
        file_poke(path, at, zeros, sizeof zeros);
        break;
    }
}

#endif

/* For tests of stores whose files are replaced: another process that does as it is
 * told, looks that can be met, and ways to replace files. */
#ifndef TAMIS_TESTS_REPLACED_SUPPORT_H
#define TAMIS_TESTS_REPLACED_SUPPORT_H

#include "store_support.h"
#include "still_clock.h"

/* ---- another process, which does as it is told ---- */

static struct {
    pid_t pid;
    int ask[2], answer[2];
} other;

static UNUSED const char *segment_name(char who, int i)
{
    static char name[4][32];
    static unsigned next;
    char *n = name[next++ % 4];
    snprintf(n, sizeof name[0], "%c%04d", who, i);
    return n;
}

/* Keys of segment i of A and of B, so that each answers for its own. */
static UNUSED uint64_t first_key(char who, int i)
{
    return (who == 'a' ? 1000000U : 2000000U) + 100U * (uint64_t)i;
}

static UNUSED int try_put(struct tamis_store *s, char who, int i,
                          struct tamis_diag *diag)
{
    const char *name = segment_name(who, i);
    struct tamis_edit *e;
    int rc = tamis_edit_begin(s, NULL, &e, diag);
    if (rc)
        return rc;
    rc = put_keys(e, name, first_key(who, i), 100, NULL);
    if (!rc)
        return tamis_edit_commit(e, diag);
    tamis_edit_abort(e);
    return rc;
}

static UNUSED int count_segments(struct tamis_store *s)
{
    SNAPSHOT snap;
    if (tamis_snapshot_current(s, &snap, NULL) != 0)
        return -1;
    return (int)tamis_snapshot_info(snap).n_segments;
}

struct order {
    char what;
    int number;
    char path[600];
};

static UNUSED int obey(struct tamis_store **s, const struct order *o)
{
    switch (o->what) {
    case 'o':
        return tamis_store_open(o->path, NULL, s, NULL);
    case 'p':
        return try_put(*s, 'b', o->number, NULL);
    case 'n':
        return count_segments(*s);
    default:
        tamis_store_close(*s);
        *s = NULL;
        return 0;
    }
}

static UNUSED void serve(void)
{
    struct tamis_store *s = NULL;
    struct order o;
    close(other.ask[1]);
    while (read(other.ask[0], &o, sizeof o) == (ssize_t)sizeof o) {
        int rc = obey(&s, &o);
        if (write(other.answer[1], &rc, sizeof rc) != (ssize_t)sizeof rc)
            break;
    }
    tamis_store_close(s);
    _exit(0);
}

static UNUSED int start_other(void **state)
{
    if (pipe(other.ask) || pipe(other.answer))
        return -1;
    other.pid = fork();
    if (other.pid == 0)
        serve();
    close(other.ask[0]);
    return other.pid < 0 ? -1 : 0;
}

static UNUSED void remove_stores(void)
{
    remove_tree("s");
    remove_tree("t");
}

static UNUSED int end_other(void **state)
{
    int status;
    close(other.ask[1]);
    waitpid(other.pid, &status, 0);
    close(other.answer[0]);
    close(other.answer[1]);
    remove_stores();
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static UNUSED int tell(char what, int number, const char *path)
{
    struct order o = {.what = what, .number = number};
    int rc;
    snprintf(o.path, sizeof o.path, "%s", path ? path : "");
    IS(write(other.ask[1], &o, sizeof o), sizeof o);
    IS(read(other.answer[0], &rc, sizeof rc), sizeof rc);
    return rc;
}

/* ---- looks in the middle of which things happen ---- */

static UNUSED unsigned n_looks; /* how often a file's name was looked at */
static UNUSED void (*in_the_look)(void);

int fstatat(int dir, const char *restrict path, struct stat *restrict st, int flags)
{
    void (*now)(void) = in_the_look;
    n_looks++;
    in_the_look = NULL;
    if (now)
        now();
    return (int)syscall(SYS_newfstatat, dir, path, st, flags);
}

/* ---- what is done to the files ---- */

#define CATALOG "s/catalog.lmdb"
#define LOCK    "s/catalog.lmdb-lock"

static UNUSED void rename_to(const char *from, const char *to)
{
    OK(rename(path_of(from), path_of(to)));
}

static UNUSED void replace_catalog(void)
{
    file_copy(path_of(CATALOG), path_of("s/new"));
    rename_to("s/new", CATALOG);
}

static UNUSED void remove_lock(void)
{
    OK(unlink(path_of(LOCK)));
}

static UNUSED void remove_catalog(void)
{
    OK(unlink(path_of(CATALOG)));
}

static UNUSED void replace_filters(void)
{
    copy_tree("s/filters", "s/new");
    rename_to("s/filters", "s/old");
    rename_to("s/new", "s/filters");
}

static UNUSED void move_away(void)
{
    rename_to("s", "t");
}

static UNUSED void move_away_and_copy_back(void)
{
    move_away();
    copy_tree("t", "s");
}

/* An older copy, written over the file as it lies there. */
static UNUSED void save_copy(void)
{
    file_copy(path_of(CATALOG), path_of("s/older"));
}

static UNUSED void restore_in_place(void)
{
    size_t n;
    FREED uint8_t *bytes = file_read(path_of("s/older"), &n);
    file_poke(path_of(CATALOG), 0, bytes, n);
}

static UNUSED void overwrite_with_zeros(void)
{
    OK(truncate(path_of(CATALOG), 0));
}

/* ---- what must hold ---- */

static UNUSED void must_say(int rc, const struct tamis_diag *diag, const char *want)
{
    if (rc != TAMIS_ERR_REPLACED || diag->code != rc || !strstr(diag->what, want))
        fail_msg("%d: %s: %s", rc, diag->file, diag->what);
}

static UNUSED void must_refuse_edits(struct tamis_store *s)
{
    struct tamis_diag diag = {0};
    struct tamis_edit *e;
    must_say(tamis_edit_begin(s, NULL, &e, &diag), &diag, "while");
    assert_null(e);
    IS(tamis_store_confirm(s, NULL, NULL), TAMIS_ERR_REPLACED);
}

static UNUSED void must_be_listed(struct tamis_store *s, char who, int i)
{
    IS(reason_of(s, segment_name(who, i), first_key(who, i)), TAMIS_HIT);
}

#define TEST_WITH_OTHER(name) TEST_WITH(start_other, end_other, name)

#endif

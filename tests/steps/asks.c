/* Words that ask, words of single files (read in every mode, brought in, derived), and
 * the backup. */
#include "tests/steps/words.h"

/* ---- one file ---- */

static void count_field(void *ctx, const struct tamis_field *field)
{
    (void)field;
    ++*(unsigned *)ctx;
}

static int ask_file(struct player *p, const struct object *o, struct tamis_filter *f)
{
    struct tamis_filter_info info = {0};
    struct tamis_verify report = {0};
    struct tamis_snapshot *s;
    uint8_t bytes[8];
    struct tamis_key key = key_number(o->keys.range[0].from, bytes);
    steps_expect_keys(o, f, true);
    int rc = TRY(p, tamis_filter_info(f, &info, NULL));
    if (!rc && (!info.n_stages || !(info.keys > 0)))
        model_broken("info says nothing");
    int bad = TRY(p, tamis_filter_verify(f, &report, &p->diag));
    if (!bad && !report.n_pages)
        model_broken("nothing was verified");
    int none = TRY(p, tamis_snapshot_from_filters(&f, 1, 0, &s));
    if (none)
        return none;
    if (IN_LIB(ASK(s, ALL, KEYS(&key, 1))) == TAMIS_ABSENT)
        model_broken("the first key is ABSENT in a snapshot");
    IN_LIB_VOID(tamis_snapshot_release(s));
    return rc | bad;
}

/* NAME MODE */
int run_read(struct player *p, const struct step *s)
{
    const struct object *o = first_object(p, s);
    struct tamis_filter_options opt = {.size = sizeof opt,
                                       .check = (enum tamis_check)s->number[0]};
    struct tamis_filter *f;
    char path[2 * STEPS_PATH_BYTES];
    unsigned n_fields = 0;
    path_in(p, o->name, path);
    int rc = TRY(p, tamis_filter_open(path, &opt, &f, &p->diag));
    if (rc && f)
        model_broken("opening failed, and there is a filter");
    if (rc)
        return rc;
    rc = ask_file(p, o, f);
    IN_LIB_VOID(tamis_filter_close(f));
    int shown = TRY(p, tamis_file_fields(path, 0, count_field, &n_fields, &p->diag));
    if (!shown && n_fields <= 50)
        broken_steps("only %u fields", n_fields);
    return rc ? rc : shown;
}

/* One that looks on. */
static struct tamis_filter *reader_of(struct player *p, const struct step *s)
{
    return run_watch(p, s) ? NULL : p->reader[number_of(p, first_object(p, s))];
}

int run_see(struct player *p, const struct step *s)
{
    struct tamis_filter *f = reader_of(p, s);
    if (f)
        steps_expect_keys(first_object(p, s), f, true);
    return !f;
}

/* The reader lets go of an older view, too; or takes all into memory. */
int run_unlock(struct player *p, const struct step *s)
{
    struct tamis_filter *f = reader_of(p, s);
    return f ? TRY(p, filter_unlock_beyond(f, 0)) : 1;
}

int run_warm(struct player *p, const struct step *s)
{
    struct tamis_filter *f = reader_of(p, s);
    struct tamis_residency in;
    if (!f)
        return 1;
    struct warming w = {.total = UINT64_MAX};
    int rc = TRY(p, filter_warm_first(f, UINT64_MAX, &w));
    int unknown = TRY(p, tamis_filter_residency(f, &in, NULL));
    if (unknown ? in.n_pages || in.n_resident : !rc && in.n_resident != in.n_pages)
        broken_steps("%llu of %llu pages are warm", (unsigned long long)in.n_resident,
                     (unsigned long long)in.n_pages);
    return rc | unknown;
}

/* ---- files from files ---- */

/* "unite NAME A B", "common NAME A" of one, "shrink NAME A". */
int run_derive_file(struct player *p, const struct step *s)
{
    const char *word = s->word->text;
    struct tamis_derivation what = {.operation = word[0] == 'u'   ? TAMIS_UNION
                                                 : word[0] == 'c' ? TAMIS_INTERSECTION
                                                                  : TAMIS_SHRINK,
                                    .error = word[0] == 's' ? 0.5 : 0};
    struct object *o = first_object(p, s);
    struct tamis_filter *f[2] = {0};
    char path[2 * STEPS_PATH_BYTES];
    size_t n = s->n_names - 1U;
    int rc = 0;
    if (o->standing == THERE)
        return 0;
    o->place = BUILT;
    o->standing = COMING;
    o->keys.n_ranges = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        const struct object *from = promised_object(p->p, s->name[i + 1]);
        path_in(p, from->name, path);
        rc = TRY(p, tamis_filter_open(path, NULL, &f[i], &p->diag));
        keyset_join(&o->keys, &from->keys);
    }
    path_in(p, o->name, path);
    if (!rc)
        rc = TRY(p, tamis_filter_derive(f, n, &what, path, NULL, NULL, &p->diag));
    for (size_t i = 0; i < n; i++)
        IN_LIB_VOID(tamis_filter_close(f[i]));
    if (!rc)
        o->standing = THERE;
    return rc;
}

/* Compares a file with itself, and only asks. */
int run_compare(struct player *p, const struct step *s)
{
    struct tamis_estimate estimate;
    struct tamis_comparison comparison;
    struct tamis_filter *f;
    char path[2 * STEPS_PATH_BYTES];
    int equal;
    path_in(p, s->name[0], path);
    int rc = TRY(p, tamis_filter_open(path, NULL, &f, &p->diag));
    if (rc)
        return rc;
    rc |= TRY(p, tamis_filter_estimate(f, 0, 0, &estimate, &p->diag));
    rc |= TRY(p, tamis_filter_compare(f, f, &comparison, &p->diag));
    if (comparison.in[0] != TAMIS_MAYBE || comparison.in[1] != TAMIS_MAYBE)
        model_broken("a filter lacks its own keys");
    rc |= TRY(p, tamis_filter_equal(f, f, &equal, &p->diag));
    IN_LIB_VOID(tamis_filter_close(f));
    return rc;
}

/* ---- a store ---- */

int run_info(struct player *p, const struct step *s)
{
    struct tamis_store_info info;
    size_t n = 0;
    (void)s;
    if (!with_store(p))
        return 1;
    int rc = TRY(p, tamis_store_info(p->store, &info, &p->diag));
    for (size_t i = 0; i < p->p->n_objects; i++)
        n += p->p->object[i].place == IN_STORE && p->p->object[i].standing == THERE;
    if (!rc && !p->lenient && info.n_segments < n)
        broken_steps("%u segments", (unsigned)info.n_segments);
    return rc;
}

/* The report has a failure of one filter; there is nothing to be had without memory. */
int run_prepare(struct player *p, const struct step *s)
{
    enum { BUDGET = 1 << 16 };
    struct tamis_prepare_options opt = {
        .size = sizeof opt, .warm = 1, .lock_bytes = BUDGET};
    struct tamis_prepare_report report;
    struct tamis_snapshot *now = snapshot_now(p);
    (void)s;
    if (!now)
        return 1;
    p->diag.code = NO_DIAG;
    int rc = IN_LIB(tamis_snapshot_prepare(now, &opt, &report, &p->diag));
    size_t n = tamis_snapshot_info(now).n_segments;
    IN_LIB_VOID(tamis_snapshot_release(now));
    bool failed = report.n_failed || report.n_unread;
    struct tamis_diag diag = p->diag;
    p->diag.code = rc ? diag.code : NO_DIAG;
    if (tried(p, rc, 0, "tamis_snapshot_prepare") != 0)
        return rc;
    if (report.n_open + report.n_skipped + report.n_failed != n)
        model_broken("not all segments are accounted for");
    if ((diag.code != 0) != failed)
        model_broken("diag and report differ");
    if (!p->lenient && (failed || report.lock_error))
        model_broken("preparing fails by itself");
    if (!failed && report.warm_bytes != report.open_bytes)
        model_broken("not all is warm");
    if (report.locked_bytes > BUDGET)
        model_broken("over the budget");
    return failed || report.lock_error;
}

/* ---- no file at all ---- */

static void (*handler(void))(int)
{
    struct sigaction now;
    return sigaction(SIGBUS, NULL, &now) == 0 ? now.sa_handler : NULL;
}

/* "guard 1": it stays. */
int run_guard(struct player *p, const struct step *s)
{
    static void (*before)(int); /* a sanitizer may have one of its own */
    static bool known;
    before = known ? before : handler();
    known = true;
    int rc = TRY(p, tamis_guard_install(&p->diag));
    if ((rc == 0) == (handler() == before))
        model_broken("no handler is there, or one that failed to be installed");
    if (rc || s->number[0] > 0)
        return rc;
    IN_LIB_VOID(tamis_guard_remove());
    p->diag.code = NO_DIAG;
    return tried(p, handler() == before ? 0 : EINVAL, 0, "tamis_guard_remove");
}

/* "plan LIMIT": of bytes, or of reads if it is below 1. All of a plan, or nothing. */
int run_plan(struct player *p, const struct step *s)
{
    enum { N = 5 };
    static const struct tamis_plan_segment planned[N] = {
        {1000, 0}, {20000, 1}, {30000, 1}, {0, 2}, {900000, 3}};
    struct tamis_plan_share shares[N];
    struct tamis_plan_summary summary;
    double limit = s->number[0];
    memset(shares, 0xff, sizeof shares);
    int rc = TRY(p, tamis_plan_store(planned, N, 300000, limit < 1 ? limit : 0,
                                     TAMIS_BLOOM, shares, &summary));
    if (rc && (!all_zero(shares, sizeof shares) || !all_zero(&summary, sizeof summary)))
        model_broken("half a plan");
    if (!rc && (limit < 1 ? summary.best.reads > limit
                          : (double)summary.best.file_bytes > limit))
        model_broken("a plan beyond its limit");
    return rc;
}

/* ---- backup ---- */

static void told(void *ctx, const struct tamis_repair_finding *f)
{
    (void)f;
    ++*(uint64_t *)ctx;
}

/* LEFT DAMAGED: what it must report. */
int run_backup(struct player *p, const struct step *s)
{
    char path[2 * STEPS_PATH_BYTES];
    uint64_t n_told = 0;
    struct tamis_backup_options opt = {
        .size = sizeof opt, .found = told, .ctx = &n_told};
    struct tamis_backup_report *r = &p->backup;
    if (!with_store(p))
        return 1;
    path_in(p, "copy", path);
    int want = p->p->backup == THERE || p->p->in_way ? TAMIS_ERR_EXISTS : 0;
    for (size_t i = 0; i < p->p->n_objects && !want; i++) {
        struct object *o = &p->p->object[i];
        o->in_backup = o->standing == THERE ? 1 + o->watermark : 0;
        o->copied.keys = o->keys;
        o->copied.rank = o->rank;
        o->copied.bare = o->bare;
        o->copied.grows = o->grows;
    }
    if (!want)
        p->p->backup = COMING;
    char store[2 * STEPS_PATH_BYTES];
    path_in_store(p, "", store);
    uint64_t tree = has_writer(p) ? 0 : steps_tree_hash(store);
    in_new_catalog = true;
    int rc = TRY_FOR(p, want, tamis_store_backup(p->store, path, &opt, r, &p->diag));
    in_new_catalog = false;
    if (tree && steps_tree_hash(store) != tree)
        model_broken("a backup has changed the store");
    if (p->p->in_way && rmdir(path) != 0)
        model_broken("what was in the way has changed");
    p->p->in_way = false;
    if (rc)
        return rc != want;
    p->p->backup = THERE;
    if (s->n_numbers && !p->misread &&
        ((double)r->n_left != s->number[0] || (double)r->n_damaged != s->number[1]))
        broken_steps("%llu damaged, %llu left out", (unsigned long long)r->n_damaged,
                     (unsigned long long)r->n_left);
    if (n_told < r->n_left + r->n_damaged)
        model_broken("not all that is missing was told");
    happened(p);
    return 0;
}

/* The words: what each of them calls, and what it promises. A word that makes no sense
 * where it stands must be refused by the library in the way that tamis.h names, or does
 * nothing, so any script may be played. */
#include "tests/steps/words.h"

void broken_steps(const char *format, ...)
{
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    model_broken(text);
}

struct object *first_object(struct player *p, const struct step *s)
{
    return promised_object(p->p, s->name[0]);
}

size_t number_of(const struct player *p, const struct object *o)
{
    return (size_t)(o - p->p->object);
}

/* ---- the store ---- */

static int run_init(struct player *p, const struct step *s)
{
    char path[2 * STEPS_PATH_BYTES];
    struct tamis_domain domain = steps_domain();
    struct tamis_store *made;
    struct tamis_open_options opt = {
        .size = sizeof opt,
        .create = TAMIS_CREATE_NEW,
        .growth = {.error = 0.001, .factor = 2, .first_capacity = 40},
        .domain = &domain};
    (void)s;
    int want = p->p->store == THERE ? TAMIS_ERR_EXISTS : 0;
    path_in_store(p, "", path);
    if (!want)
        p->p->store = COMING;
    in_new_catalog = true;
    int rc = TRY_FOR(p, want, tamis_store_open(path, &opt, &made, &p->diag));
    in_new_catalog = false;
    IN_LIB_VOID(tamis_store_close(made));
    if (rc == 0)
        p->p->store = THERE;
    happened(p);
    return rc == want ? 0 : rc;
}

bool with_store(struct player *p)
{
    char path[2 * STEPS_PATH_BYTES];
    if (!p->store && p->p->store == NOT_THERE)
        return false;
    path_in_store(p, "", path);
    if (!p->store && TRY(p, tamis_store_open(path, NULL, &p->store, &p->diag)) != 0 &&
        p->store)
        model_broken("opening failed, and there is a store");
    return p->store;
}

static int run_open(struct player *p, const struct step *s)
{
    (void)s;
    return with_store(p) ? 0 : 1;
}

static int run_close(struct player *p, const struct step *s)
{
    (void)s;
    player_end(p);
    return 0;
}

static int run_confirm(struct player *p, const struct step *s)
{
    (void)s;
    if (!with_store(p))
        return 1;
    int rc = TRY(p, tamis_store_confirm(p->store, NULL, &p->diag));
    if (rc == 0)
        p->p->lost = p->p->unsure = false;
    p->p->unsure |= p->unsure;
    p->unsure = false;
    happened(p);
    return rc;
}

struct tamis_snapshot *snapshot_now(struct player *p)
{
    struct tamis_snapshot *s = NULL;
    if (with_store(p) && TRY(p, tamis_snapshot_current(p->store, &s, &p->diag)) != 0)
        return NULL;
    return s;
}

static void release(struct tamis_snapshot *s)
{
    IN_LIB_VOID(tamis_snapshot_release(s));
}

bool find_segment(const struct tamis_snapshot *s, const char *name, size_t *index)
{
    struct tamis_target t;
    name = name_in_store(name);
    int rc = tamis_snapshot_find(s, name, strlen(name), NULL, 0, 0, &t);
    *index = t.ordinal - 1;
    return rc == 0;
}

void path_of_object(struct player *p, const struct object *o,
                    char path[2 * STEPS_PATH_BYTES])
{
    struct tamis_segment_info info;
    struct tamis_snapshot *s = o->place == IN_STORE ? snapshot_now(p) : NULL;
    size_t index;
    path_in(p, o->name, path);
    if (s && find_segment(s, o->name, &index) &&
        tamis_snapshot_segment(s, index, &info) == 0)
        path_in_store(p, info.file, path);
    if (s)
        release(s);
}

bool is_sealed(const struct object *o)
{
    return o->seal == THERE || o->sealed;
}

/* ---- sets of keys ---- */

uint32_t keyset_size(const struct keyset *k)
{
    uint32_t n = 0;
    for (size_t i = 0; i < k->n_ranges; i++)
        n += k->range[i].n;
    return n;
}

uint32_t keyset_at(const struct keyset *k, uint32_t i)
{
    size_t r = 0;
    while (i >= k->range[r].n)
        i -= k->range[r++].n;
    return k->range[r].from + i;
}

/* Joins ranges. Ranges without room are not promised. */
void keyset_join(struct keyset *to, const struct keyset *from)
{
    for (size_t i = 0; i < from->n_ranges && to->n_ranges < MAX_RANGES; i++)
        to->range[to->n_ranges++] = from->range[i];
}

struct keyset numbers_of(const struct step *s)
{
    return (struct keyset){.range = {{(uint32_t)s->number[0], (uint32_t)s->number[1]}},
                           .n_ranges = 1};
}

static struct keyset keys_of(const struct object *o)
{
    struct keyset k = o->keys;
    if (o->grows)
        k.range[0].n = o->watermark;
    return k;
}

/* ---- parts of edits ---- */

static bool is_listed(const struct object *o)
{
    return o->place == IN_STORE &&
           (o->standing == THERE || o->standing == COMING || o->standing == CHANGING);
}

/* After an `only` the commit of the edit alone says what names exist: not tried. */
#define TRY_NAME(p, want, call)                                                        \
    ((want) && (p)->unsure_edit == (p)->edit_number ? (want) : TRY_FOR(p, want, call))

/* Notes the segment that the edit puts in the place of the old one. */
static void note_put(struct player *p, struct object *o, const struct keyset *keys,
                     bool bare, bool grows)
{
    o->place = IN_STORE;
    o->edit = p->edit_number;
    if (o->standing == GOING) {
        o->standing = CHANGING;
        o->next = *keys;
        o->next_bare = bare;
        return;
    }
    o->standing = COMING;
    o->bare = bare;
    o->grows = grows;
    o->keys = *keys;
    o->n_added = o->n_done = o->watermark = o->asked = o->stages = 0;
    memset(o->n_helping, 0, sizeof o->n_helping);
    memset(o->n_helped, 0, sizeof o->n_helped);
    o->seal = NOT_THERE;
    o->sealed = false;
    o->worth = GOOD;
    o->lost_page = 0;
}

static void note_drop(struct player *p, struct object *o)
{
    o->standing = o->standing == COMING ? NOT_THERE : GOING;
    o->edit = p->edit_number;
}

static uint32_t next_rank(const struct object *o)
{
    return o->standing == GOING ? o->rank + 1 : o->rank;
}

/* Keys of even sets come with their bytes, one by one, so the filter gets a key range;
 * those of odd sets are hashes, some at a time. */
int fill_builder(struct player *p, struct tamis_builder *b, const struct keyset *keys)
{
    enum { AT_ONCE = 100 };
    uint64_t hashes[AT_ONCE], tag = steps_domain().tag;
    uint32_t n = keyset_size(keys), waiting = 0;
    uint8_t bytes[8];
    int rc = 0;
    for (uint32_t i = 0; i < n && !rc; i++) {
        struct tamis_key key = key_number(keyset_at(keys, i), bytes);
        hashes[waiting++] = key.hash;
        if (keys->range[0].from % 2 == 0) {
            rc = TRY(p, tamis_builder_add_key(b, bytes, sizeof bytes));
        } else if (waiting == AT_ONCE || i + 1 == n) {
            rc = TRY(p, tamis_builder_add_hashes(b, tag, hashes, waiting));
        } else {
            continue;
        }
        waiting = 0;
    }
    return rc;
}

/* NAME FROM N ERROR: "put", "list" with a list, "pput" into a pack, "ribbon"; "replace"
 * what is there. */
static int run_put(struct player *p, const struct step *s)
{
    struct object *o = first_object(p, s);
    struct keyset keys = numbers_of(s);
    const char *word = s->word->text;
    bool packs = word[1] == 'p', replaces = strcmp(word, "replace") == 0;
    if (replaces && is_listed(o))
        note_drop(p, o);
    struct tamis_segment_options opt = {
        .size = sizeof opt,
        .kind = strcmp(word, "ribbon") == 0 ? TAMIS_RIBBON : 0,
        .rank = next_rank(o),
        .list_bits = word[0] == 'l' ? 64 : 0,
        .replace = replaces};
    struct tamis_builder *b;
    int want = is_listed(o) ? TAMIS_ERR_EXISTS : 0;
    int rc = TRY_NAME(
        p, want,
        tamis_edit_builder(p->edit, NAME_OF(o), s->number[2], &opt, &b, &p->diag));
    if (rc)
        return rc != want;
    if (packs && !p->packer)
        rc = TRY(p, tamis_edit_packer(p->edit, NULL, &p->packer, &p->diag));
    if (!rc)
        rc = fill_builder(p, b, &keys);
    if (!rc && packs)
        rc = TRY(p, tamis_packer_take(p->packer, b, &p->diag));
    else if (!rc)
        rc = TRY(p, tamis_edit_put(p->edit, b, NULL, &p->diag));
    IN_LIB_VOID(tamis_builder_free(b));
    if (rc)
        return rc;
    note_put(p, o, &keys, false, false);
    return 0;
}

static int run_bare(struct player *p, const struct step *s)
{
    struct object *o = first_object(p, s);
    struct tamis_segment_options opt = {.size = sizeof opt, .rank = next_rank(o)};
    struct keyset some = {.range = {{7, 2}}, .n_ranges = 1};
    int want = is_listed(o) ? TAMIS_ERR_EXISTS : 0;
    int rc =
        TRY_NAME(p, want, tamis_edit_put_bare(p->edit, NAME_OF(o), &opt, &p->diag));
    if (rc == 0)
        note_put(p, o, &some, true, false);
    return rc != want;
}

/* Each growing filter has a log of keys of its own. */
struct keyset log_of(const struct player *p, const struct object *o)
{
    return (struct keyset){
        .range = {{1000000 * (uint32_t)(1 + number_of(p, o)) + 40000 * (o->rank % 25),
                   0}},
        .n_ranges = 1};
}

/* NAME FIRST_CAPACITY FACTOR ERROR; without numbers the store's. */
static int run_grow(struct player *p, const struct step *s)
{
    struct object *o = first_object(p, s);
    struct tamis_growth growth = growth_of(s);
    int want = is_listed(o) ? TAMIS_ERR_EXISTS : 0;
    if (o->standing == GOING)
        return 0; /* what replaces something does not grow: the model has no such */
    o->rank += o->standing == NOT_THERE && o->edit; /* another log each time */
    struct tamis_segment_options opt = {.size = sizeof opt, .rank = o->rank};
    int rc =
        TRY_NAME(p, want,
                 tamis_edit_put_growing(p->edit, NAME_OF(o),
                                        s->n_numbers ? &growth : NULL, &opt, &p->diag));
    struct keyset log = log_of(p, o);
    if (rc == 0)
        note_put(p, o, &log, false, true);
    return rc != want;
}

static int run_attach(struct player *p, const struct step *s)
{
    struct object *o = first_object(p, s);
    const struct object *file = promised_object(p->p, s->name[1]);
    struct keyset keys = file->keys;
    struct tamis_segment_options opt = {
        .size = sizeof opt, .rank = next_rank(o), .binding = "sst", .binding_bytes = 3};
    char path[2 * STEPS_PATH_BYTES];
    if (file->standing != THERE)
        return 1;
    path_in(p, s->name[1], path);
    int want = is_listed(o) ? TAMIS_ERR_EXISTS : 0;
    int rc =
        TRY_NAME(p, want, tamis_edit_attach(p->edit, NAME_OF(o), path, &opt, &p->diag));
    if (rc == 0)
        note_put(p, o, &keys, false, false);
    return rc != want;
}

static int run_drop(struct player *p, const struct step *s)
{
    struct object *o = first_object(p, s);
    int want = is_listed(o) ? 0 : TAMIS_ERR_NO_SEGMENT;
    int rc = TRY_NAME(p, want, tamis_edit_drop(p->edit, NAME_OF(o), NULL, &p->diag));
    if (rc == 0)
        note_drop(p, o);
    return rc != want;
}

static bool is_named(const struct step *s, const char *name)
{
    for (size_t i = 0; i < s->n_names; i++)
        if (strcmp(s->name[i], name) == 0)
            return true;
    return false;
}

/* Segments that are not named go, but segments that this edit puts stay. A name that is
 * not there is registered bare. */
static int run_only(struct player *p, const struct step *s)
{
    struct tamis_identity live[STEP_NAMES + 1] = {{.name = NULL}};
    struct tamis_snapshot *now = snapshot_now(p);
    struct keyset some = {.range = {{7, 2}}, .n_ranges = 1};
    if (!now)
        return 1;
    for (size_t i = 0; i < s->n_names; i++) {
        promised_object(p->p, s->name[i]);
        live[i].name = name_in_store(s->name[i]);
        live[i].name_bytes = strlen(live[i].name);
    }
    int rc =
        TRY(p, tamis_edit_reconcile(p->edit, now, live, s->n_names, NULL, &p->diag));
    release(now);
    p->unsure_edit = p->edit_number;
    for (size_t i = 0; i < p->p->n_objects && !rc; i++) {
        struct object *o = &p->p->object[i];
        bool ours = o->edit == p->edit_number &&
                    (o->standing == COMING || o->standing == CHANGING);
        if (is_named(s, o->name) && !is_listed(o))
            note_put(p, o, &some, true, false);
        else if (is_listed(o) && !ours && !is_named(s, o->name))
            note_drop(p, o);
    }
    return rc;
}

/* ---- packs ---- */

/* The segments of these names; without names all, NULL. */
static size_t pick(const struct step *s, struct tamis_snapshot *of, bool packed,
                   uint32_t picked[MAX_OBJECTS])
{
    size_t n = 0, index;
    for (size_t i = 0; i < s->n_names; i++)
        if (find_segment(of, s->name[i], &index) &&
            (!packed || tamis_snapshot_pack(of, index, NULL, NULL, NULL) == 0))
            picked[n++] = (uint32_t)index;
    for (size_t i = 0; s->n_names == 0 && tamis_snapshot_next(of, &i); i++)
        if (n < MAX_OBJECTS &&
            (!packed || tamis_snapshot_pack(of, i, NULL, NULL, NULL) == 0))
            picked[n++] = (uint32_t)i;
    return n;
}

/* NAME... REPACK HELD DRY_RUN. No promise changes. */
static int run_pack(struct player *p, const struct step *s)
{
    struct tamis_pack_options opt = {.size = sizeof opt,
                                     .repack = (enum tamis_repack)s->number[0],
                                     .dry_run = s->number[2] > 0};
    struct tamis_pack_report report;
    struct tamis_snapshot *now = snapshot_now(p);
    struct tamis_snapshot *of = s->number[1] > 0 && p->held ? p->held : now;
    uint32_t picked[MAX_OBJECTS];
    if (!now)
        return 1;
    bool all = !s->n_names || opt.repack == TAMIS_REPACK_AUTO;
    size_t n = pick(s, of, false, picked);
    int rc = IN_LIB(
        tamis_edit_pack(p->edit, of, all ? NULL : picked, n, &opt, &report, &p->diag));
    /* One that is held may be of a store that was closed since. */
    bool stale = of != now && rc == TAMIS_ERR_MISMATCH;
    tried(p, rc, stale ? rc : 0, "tamis_edit_pack");
    release(now);
    return rc && !stale;
}

static int run_unpack(struct player *p, const struct step *s)
{
    struct tamis_snapshot *now = snapshot_now(p);
    uint32_t picked[MAX_OBJECTS];
    if (!now)
        return 1;
    size_t n = pick(s, now, true, picked);
    int rc = TRY(p, tamis_edit_unpack(p->edit, now, picked, n, &p->diag));
    release(now);
    return rc;
}

/* ---- filters from filters ---- */

/* The sources, and the keys that they have together; none if one cannot be a source. */
static size_t sources(struct player *p, const struct step *s,
                      const struct tamis_snapshot *now, size_t first,
                      size_t index[STEP_NAMES], struct keyset *keys)
{
    keys->n_ranges = 0;
    for (size_t i = first; i < s->n_names; i++) {
        const struct object *o = promised_object(p->p, s->name[i]);
        struct keyset one = keys_of(o);
        if (o->standing != THERE || o->bare || (o->grows && !is_sealed(o)) ||
            !find_segment(now, o->name, &index[i - first]))
            return 0;
        keyset_join(keys, &one);
    }
    return s->n_names - first;
}

/* "union NAME SOURCE...", "join NAME SOURCE..." in the place of its sources, "fold
 * NAME" in its own, "merge NAME SOURCE..." of lists, "fromlist NAME". */
static int derive_one(struct player *p, const struct step *s,
                      struct tamis_snapshot *now)
{
    const char *word = s->word->text;
    bool in_place = word[0] == 'f', fold = strcmp(word, "fold") == 0;
    struct object *o = first_object(p, s);
    struct tamis_derivation what = {.operation = fold ? TAMIS_FOLD : TAMIS_UNION,
                                    .factor = 1};
    struct tamis_segment_info info;
    size_t index[STEP_NAMES];
    struct keyset keys;
    size_t n = sources(p, s, now, !in_place, index, &keys);
    int rc = 0;
    if (!n || is_listed(o) != in_place)
        return 0;
    for (size_t i = 0; i < n && word[0] == 'j' && !rc; i++) {
        struct object *source = promised_object(p->p, s->name[i + 1]);
        IN_LIB(tamis_snapshot_segment(now, index[i], &info));
        struct tamis_drop_if same = {.uuid = info.uuid};
        rc = TRY(p,
                 tamis_edit_drop(p->edit, info.name, info.name_bytes, &same, &p->diag));
        if (!rc)
            note_drop(p, source);
    }
    if (fold)
        note_drop(p, o);
    struct tamis_segment_options opt = {
        .size = sizeof opt, .rank = next_rank(o), .replace = fold};
    if (rc)
        return rc;
    if (strcmp(word, "fromlist") == 0)
        return TRY(p,
                   tamis_edit_from_list(p->edit, now, index[0], 0.01, NULL, &p->diag));
    if (word[0] == 'm')
        rc = TRY(p, tamis_edit_merge(p->edit, NAME_OF(o), now, index, n, 0.01, &opt,
                                     NULL, &p->diag));
    else
        rc = TRY(p, tamis_edit_derive(p->edit, NAME_OF(o), now, index, n, &what, &opt,
                                      NULL, &p->diag));
    if (!rc)
        note_put(p, o, &keys, false, false);
    return rc;
}

static int run_derive(struct player *p, const struct step *s)
{
    struct tamis_snapshot *now = snapshot_now(p);
    int rc = now ? derive_one(p, s, now) : 1;
    if (now)
        release(now);
    return rc;
}

/* ---- repair, backup, questions ---- */

struct findings {
    uint64_t n_noted, n_damage;
};

static void found(void *ctx, const struct tamis_repair_finding *f)
{
    struct findings *all = ctx;
    if (!f->what || !f->what[0])
        model_broken("a finding without words");
    all->n_noted += f->action == TAMIS_REPAIR_NOTED;
    all->n_damage += f->damage != 0;
}

static void expect_report(const struct player *p, const struct step *s)
{
    const struct tamis_repair_report *r = &p->repair;
    const uint64_t has[] = {r->n_finished, r->n_rebuilt, r->n_quarantined,
                            r->n_swept,    r->n_damaged, (uint64_t)r->rebuilt};
    for (size_t i = 0; i < s->n_numbers && !p->lenient; i++)
        if ((double)has[i] != s->number[i])
            broken_steps("%llu finished, %llu rebuilt, %llu quarantined, %llu swept, "
                         "%llu damaged, catalog %s",
                         (unsigned long long)has[0], (unsigned long long)has[1],
                         (unsigned long long)has[2], (unsigned long long)has[3],
                         (unsigned long long)has[4], has[5] ? "rebuilt" : "kept");
}

/* A repair that could not read the catalog makes it anew. None makes it complete. */
static void note_completeness(struct player *p)
{
    bool complete = p->repair.complete;
    if (complete == p->p->lost && (complete || !p->lenient))
        broken_steps("after a repair the catalog is %s",
                     complete ? "complete" : "incomplete");
    if (!complete && !p->p->lost)
        promises_lose_catalog(p->p);
    p->p->unsure = false;
}

/* FINISHED REBUILT QUARANTINED SWEPT DAMAGED CATALOG: what it must report. "dry"
 * changes nothing, "mend" finds nothing that is damaged. */
static int run_repair(struct player *p, const struct step *s)
{
    char path[2 * STEPS_PATH_BYTES];
    struct findings all = {0};
    bool dry = s->word->text[0] == 'd';
    struct tamis_repair_options opt = {
        .size = sizeof opt, .dry_run = dry, .found = found, .ctx = &all};
    path_in_store(p, "", path);
    uint64_t tree = dry ? steps_tree_hash(path) : 0;
    in_new_catalog = p->p->lost;
    int rc = TRY(p, tamis_store_repair(path, &opt, &p->repair, &p->diag));
    in_new_catalog = false;
    if (dry && steps_tree_hash(path) != tree)
        model_broken("a dry run changed something");
    p->p->unsure |= rc && !dry && p->lenient && !p->p->lost;
    if (rc)
        return rc;
    expect_report(p, s);
    if (!dry)
        note_completeness(p);
    if (s->word->text[0] == 'm' && (all.n_damage || p->repair.n_rebuilt ||
                                    p->repair.n_damaged || p->repair.n_unread))
        broken_steps("repair finds %llu things damaged",
                     (unsigned long long)all.n_damage);
    if (!dry && !all.n_noted)
        p->p->repaired = true;
    happened(p);
    return (double)all.n_noted > s->number[4]; /* the next repair may do better */
}

static int run_orphans(struct player *p, const struct step *s)
{
    struct findings all = {0};
    uint64_t n = 0;
    if (!with_store(p))
        return 1;
    int rc = TRY(p, tamis_store_orphans(p->store, found, &all, &n, &p->diag));
    if (rc == 0 && (n != all.n_noted || (double)n != s->number[0]))
        broken_steps("%llu orphans, %llu told", (unsigned long long)n,
                     (unsigned long long)all.n_noted);
    return rc;
}

bool has_writer(const struct player *p)
{
    for (size_t i = 0; i < MAX_OBJECTS; i++)
        if (p->writer[i])
            return true;
    return false;
}

static int run_ask(struct player *p, const struct step *s)
{
    (void)s;
    struct tamis_snapshot *now = snapshot_now(p);
    if (!now)
        return 1;
    steps_ask(p, now, p->p);
    /* The filters of columns, in memory. */
    struct tamis_filter *f;
    for (size_t i = 0; tamis_snapshot_next(now, &i); i++)
        if (tamis_snapshot_pack(now, i, NULL, NULL, NULL) == 0) {
            TRY(p, tamis_snapshot_filter(now, i, &f, &p->diag));
            IN_LIB_VOID(tamis_filter_close(f));
        }
    release(now);
    return 0;
}

/* Counts are exact, in whichever memory there is for them. */
static int run_count(struct player *p, const struct step *s)
{
    struct tamis_target nothing_named = {0};
    struct tamis_stats stats;
    (void)s;
    if (!with_store(p) || TRY(p, tamis_store_count(p->store, 1, &p->diag)) != 0)
        return 1;
    struct tamis_snapshot *now = snapshot_now(p);
    if (!now)
        return 1;
    if (IN_LIB(tamis_snapshot_probe(now, &nothing_named, NULL, NULL)) == TAMIS_ABSENT)
        model_broken("ABSENT from nowhere");
    int rc = TRY(p, tamis_snapshot_stats(now, 1, &stats));
    if (rc == 0 && stats.n_probes != 1)
        broken_steps("%u probes", (unsigned)stats.n_probes);
    release(now);
    return rc;
}

static int run_hold(struct player *p, const struct step *s)
{
    (void)s;
    struct tamis_snapshot *now = snapshot_now(p);
    steps_expect_held(p);
    if (p->held)
        release(p->held); /* the last one that has its files, perhaps */
    p->held = now;
    if (!p->promised_then)
        p->promised_then = malloc(sizeof *p->promised_then);
    if (!p->promised_then)
        abort();
    *p->promised_then = *p->p;
    return p->held ? 0 : 1;
}

static int run_look(struct player *p, const struct step *s)
{
    struct look look = {.cache = true, .any_damage = s->number[0] > 0};
    steps_expect(p, &look);
    steps_expect_kept(p, &look);
    steps_expect_held(p);
    return 0;
}

/* names, numbers; any number of names behind these; a part of an edit */
const struct word words[] = {
    {"init", 0, 0, false, false, run_init},
    {"open", 0, 0, false, false, run_open},
    {"close", 0, 0, false, false, run_close},
    {"confirm", 0, 0, false, false, run_confirm},
    {"begin", 0, 0, false, false, NULL},
    {"end", 0, 0, false, false, NULL},
    {"abort", 0, 0, false, false, NULL},
    {"now", 0, 0, false, false, NULL},
    {"put", 1, 3, false, true, run_put},
    {"list", 1, 3, false, true, run_put},
    {"pput", 1, 3, false, true, run_put},
    {"ribbon", 1, 3, false, true, run_put},
    {"replace", 1, 3, false, true, run_put},
    {"bare", 1, 0, false, true, run_bare},
    {"grow", 1, 3, false, true, run_grow},
    {"attach", 2, 0, false, true, run_attach},
    {"drop", 1, 0, false, true, run_drop},
    {"only", 0, 0, true, true, run_only},
    {"pack", 0, 3, true, true, run_pack},
    {"unpack", 0, 0, true, true, run_unpack},
    {"union", 2, 0, true, true, run_derive},
    {"join", 2, 0, true, true, run_derive},
    {"fold", 1, 0, false, true, run_derive},
    {"merge", 2, 0, true, true, run_derive},
    {"fromlist", 1, 0, false, true, run_derive},
    {"lone", 1, 3, false, false, run_lone},
    {"writer", 1, 0, false, false, run_writer},
    {"past", 1, 0, false, false, run_writer}, /* past the catalog */
    {"alone", 1, 0, false, false, run_alone},
    {"replay", 1, 1, false, false, run_replay},
    {"add", 1, 1, false, false, run_add},
    {"fill", 1, 1, false, false, run_add},
    {"commit", 1, 0, false, false, run_commit},
    {"seal", 1, 0, false, false, run_seal},
    {"shut", 1, 0, false, false, run_shut},
    {"kill", 1, 0, false, false, run_shut},
    {"watch", 1, 0, false, false, run_watch},
    {"build", 1, 4, false, false, run_build},
    {"embed", 1, 4, false, false, run_embed},
    {"repair", 0, 6, false, false, run_repair},
    {"dry", 0, 6, false, false, run_repair},
    {"mend", 0, 0, false, false, run_repair},
    {"orphans", 0, 1, false, false, run_orphans},
    {"backup", 0, 2, false, false, run_backup},
    {"ask", 0, 0, false, false, run_ask},
    {"count", 0, 0, false, false, run_count},
    {"hold", 0, 0, false, false, run_hold},
    {"look", 0, 1, false, false, run_look},
    {"read", 1, 1, false, false, run_read},
    {"see", 1, 0, false, false, run_see},
    {"unlock", 1, 0, false, false, run_unlock},
    {"warm", 1, 0, false, false, run_warm},
    {"unite", 3, 0, false, false, run_derive_file},
    {"common", 2, 0, false, false, run_derive_file},
    {"shrink", 2, 0, false, false, run_derive_file},
    {"compare", 1, 0, false, false, run_compare},
    {"info", 0, 0, false, false, run_info},
    {"prepare", 0, 0, false, false, run_prepare},
    {"guard", 0, 1, false, false, run_guard},
    {"plan", 0, 1, false, false, run_plan},
    {"rot", 1, 1, false, false, damage_file},    /* a bit of its first page */
    {"zero", 1, 0, false, false, damage_file},   /* that page */
    {"sector", 1, 0, false, false, damage_file}, /* one with bits in it */
    {"lose", 1, 0, false, false, damage_file},   /* the file */
    {"spoil", 1, 0, false, false, damage_file},  /* its record */
    {"twice", 1, 2, false, false, damage_twice}, /* FROM N: an older file, too */
    {"stray", 1, 2, false, false, damage_twice}, /* the same, of no segment */
    /* gone, zeros, noise, cut, meta, short; or nofilters */
    {"catalog", 1, 0, false, false, damage_catalog},
    {"litter", 0, 1, false, false, damage_litter}, /* unfinished files */
    {"aside", 1, 0, false, false, damage_litter},  /* in the way in quarantine/ */
    {"inway", 0, 0, false, false, damage_in_way},
    {"keep", 0, 0, false, false, damage_keep},
    /* The crash explorer's own. */
    {"failsync", 0, 1, false, false, NULL},
    {"diesync", 0, 1, false, false, NULL},
    {"lie", 0, 0, false, false, NULL},
    {"thread", 1, 0, false, false, NULL},
    {"unthread", 0, 0, false, false, NULL},
    {"losesector", 1, 0, false, false, NULL},
    /* Those of faults: what is between is done by another process, as it were. */
    {"others", 0, 0, false, false, NULL},
    {"ours", 0, 0, false, false, NULL},
    /* Those of device errors. */
    {"break", 0, 0, false, false, NULL},
    {"heal", 0, 0, false, false, NULL},
    {"writeback", 1, 0, false, false, NULL},
    {"unread", 1, 0, false, false, NULL},
    {"expect", 0, 0, false, false, NULL},
    {"badpage", 1, 1, false, false, NULL},
    {"reader", 1, 1, false, false, NULL},
    {"full", 0, 1, false, false, NULL},
    {"space", 0, 0, false, false, NULL},
    {"dig", 1, 0, false, false, NULL},
    {"share", 1, 0, false, false, NULL},
    {"same", 1, 0, false, false, NULL},
    {"killed", 0, 0, false, false, NULL},
    {"survived", 0, 0, false, false, NULL},
    {"command", 1, 1, false, false, NULL},
    {"clean", 1, 1, false, false, NULL},
    {"behind", 1, 0, false, false, NULL},
    {"damaged", 1, 0, false, false, NULL},
    {0},
};

/* Holds files against the promises; and plays an engine's next steps. */
#include "tests/steps/steps.h"

/* ---- keys ---- */

void steps_expect_keys(const struct object *o, struct tamis_filter *f, bool any_damage)
{
    struct look look = {.cache = true};
    struct keyset k = o->keys;
    struct promised_keys keys = promised_keys_of(&k, o, &look);
    IN_LIB_VOID(expect_keys(o->name, f, &keys, any_damage || o->worth != GOOD));
}

void steps_expect_readers(struct player *p, bool any_damage)
{
    for (size_t i = 0; i < p->p->n_objects; i++)
        if (p->reader[i])
            steps_expect_keys(&p->p->object[i], p->reader[i], any_damage);
}

void steps_ask(struct player *p, struct tamis_snapshot *s,
               const struct promises *promises)
{
    struct look look = {.cache = true};
    (void)p;
    for (size_t i = 0; i < promises->n_objects; i++) {
        const struct object *o = &promises->object[i];
        struct tamis_target t;
        struct keyset k = o->keys;
        struct promised_keys keys = promised_keys_of(&k, o, &look);
        if (o->place != IN_STORE || o->standing != THERE)
            continue;
        tamis_snapshot_find(s, NAME_OF(o), NULL, 0, 0, &t);
        for (uint64_t n = 0; n < keys.n; n++) {
            struct tamis_key key;
            keys.key(keys.ctx, n, &key);
            if (IN_LIB(tamis_snapshot_probe(s, &t, &key, NULL)) ||
                IN_LIB(ASK(s, LIST(&t, 1), KEYS(&key, 1))) ||
                IN_LIB(ASK(s, ALL, KEYS(&key, 1))))
                broken_steps("key %llu of segment %s is ABSENT", (unsigned long long)n,
                             o->name);
        }
    }
}

void steps_expect_held(struct player *p)
{
    if (p->held)
        steps_ask(p, p->held, p->promised_then);
}

/* ---- segments ---- */

static void note_grown(struct object *o, const struct tamis_filter_info *info,
                       const struct look *look)
{
    if (!look->cache)
        o->n_done = (uint32_t)info->watermark;
    o->sealed = info->sealed;
    if (!info->sealed)
        o->seal = NOT_THERE;
}

/* Edits under way took effect or did not. A watermark that a reader sees is visible,
 * not yet durable (R3): it promises nothing. */
static void settle_segments(struct promises *p, struct tamis_snapshot *s,
                            const enum outcome outcome[MODEL_EDITS],
                            const struct look *look)
{
    for (uint32_t edit = 0; edit < MODEL_EDITS; edit++)
        if (outcome[edit] != EDIT_UNKNOWN)
            promises_settle(p, edit, outcome[edit] == EDIT_DONE);
    for (size_t i = 0; i < p->n_objects; i++) {
        struct object *o = &p->object[i];
        struct tamis_filter_info info;
        struct tamis_filter *f;
        size_t index;
        if (o->place == IN_STORE && o->standing == THERE && o->grows &&
            find_segment(s, o->name, &index) &&
            IN_LIB(tamis_snapshot_filter(s, index, &f, NULL)) == 0 &&
            IN_LIB(tamis_filter_info(f, &info, NULL)) == 0)
            note_grown(o, &info, look);
    }
}

static size_t expect_whole_store(struct promises *p, struct tamis_snapshot *s,
                                 const struct look *look)
{
    enum outcome outcome[MODEL_EDITS] = {EDIT_UNKNOWN};
    size_t n_files = IN_LIB(expect_segments(s, p, look, outcome)), n_there = 0;
    settle_segments(p, s, outcome, look);
    for (size_t i = 0; i < p->n_objects; i++)
        n_there += p->object[i].place == IN_STORE && p->object[i].standing == THERE;
    if (n_there != tamis_snapshot_info(s).n_segments)
        broken_steps("%zu segments are listed, not %zu",
                     tamis_snapshot_info(s).n_segments, n_there);
    return n_files;
}

/* ---- the same of a store that was hurt ---- */

static bool is_hurt(const struct promises *p)
{
    bool hurt = p->lost;
    for (size_t i = 0; i < p->n_objects; i++)
        hurt |= p->object[i].place == IN_STORE && p->object[i].worth != GOOD;
    return hurt;
}

/* A good filter is used; where two claim to be it, only a catalog knows which it is. */
static bool has_filter(const struct promises *p, const struct object *o)
{
    return !o->bare && (o->worth == GOOD || (o->worth == TWICE && !p->lost) ||
                        (o->worth == SPOILT && p->repaired));
}

/* A pack that cannot be opened may have the segment: its name does not find it. */
static bool may_be_packed(const struct tamis_snapshot *s, const struct object *o,
                          const struct look *look)
{
    struct tamis_target t;
    int rc = tamis_snapshot_find(s, NAME_OF(o), NULL, 0, 0, &t);
    bool hurt = look->any_damage || o->worth != GOOD;
    return hurt && rc && rc != TAMIS_ERR_NO_SEGMENT;
}

/* Each key may be there, in its segment and in all of the store; each segment is listed
 * that should be, and has its filter if that is good. */
static void expect_hurt_segment(const struct promises *p, struct tamis_snapshot *s,
                                const struct object *o, const struct look *look)
{
    struct tamis_segment_info info;
    struct tamis_filter *f = NULL;
    struct keyset k = o->keys;
    struct promised_keys keys = promised_keys_of(&k, o, look);
    struct tamis_key key;
    size_t index;
    bool listed = find_segment(s, o->name, &index);
    bool aside = (look->any_damage && p->lost) || may_be_packed(s, o, look);
    if (!listed && !o->forgotten && !aside && (o->worth != SPOILT || p->repaired))
        broken_steps("segment %s is not listed", o->name);
    bool asked = !listed && (p->lost || !o->forgotten);
    for (uint64_t i = 0; i < keys.n && asked; i += i < 4 ? 1 : 50)
        if (keys.key(&k, i, &key) && IN_LIB(ASK(s, ALL, KEYS(&key, 1))) == TAMIS_ABSENT)
            broken_steps("key %llu of segment %s is ABSENT everywhere",
                         (unsigned long long)i, o->name);
    if (!listed)
        return;
    IN_LIB_VOID(expect_keys_of_segment(o->name, s, index, &keys, TAMIS_NO_REASON));
    /* The filter itself: a list that is not confirmed answers nothing of it. */
    int rc = IN_LIB(tamis_snapshot_filter(s, index, &f, NULL));
    bool good = has_filter(p, o) && !look->any_damage;
    if (rc && good)
        broken_steps("segment %s has lost its good filter", o->name);
    struct object as_good = *o;
    as_good.worth = GOOD;
    if (!rc && good)
        IN_LIB_VOID(steps_expect_filter(o->name, f, &as_good, look));
    else if (!rc)
        IN_LIB_VOID(expect_keys(o->name, f, &keys, true));
    IN_LIB_VOID(tamis_filter_close(f));
    IN_LIB(tamis_snapshot_segment(s, index, &info));
    if (p->repaired && o->worth == ROTTEN && info.state == TAMIS_SEGMENT_SEALED)
        broken_steps("segment %s still has its rotten filter", o->name);
}

static size_t expect_hurt_store(struct player *p, struct tamis_snapshot *s,
                                const struct look *look)
{
    size_t index;
    /* An edit under way took effect if what it puts has its name. */
    for (size_t i = 0; i < p->p->n_objects; i++)
        if (p->p->object[i].place == IN_STORE && p->p->object[i].standing == COMING)
            promises_settle(p->p, p->p->object[i].edit,
                            find_segment(s, p->p->object[i].name, &index));
    for (size_t i = 0; i < p->p->n_objects; i++)
        if (p->p->object[i].place == IN_STORE && p->p->object[i].standing == THERE)
            expect_hurt_segment(p->p, s, &p->p->object[i], look);
    settle_segments(p->p, s, (const enum outcome[MODEL_EDITS]){EDIT_UNKNOWN}, look);
    return IN_LIB(count_listed_files(s));
}

static void expect_complete(struct player *p)
{
    struct tamis_store_info info;
    TRY(p, tamis_store_info(p->store, &info, &p->diag));
    bool as_promised = (bool)info.complete != p->p->lost, unsure = p->p->unsure;
    p->p->unsure = false;
    if (as_promised)
        return;
    if (!unsure)
        broken_steps("the catalog calls itself %s",
                     info.complete ? "complete" : "incomplete");
    if (info.complete)
        p->p->lost = false;
    else
        promises_lose_catalog(p->p);
}

/* ---- files that the store does not know ---- */

static struct tamis_filter *open_file(struct player *p, const char *path,
                                      enum tamis_check check)
{
    struct tamis_filter_options opt = {.size = sizeof opt, .check = check};
    struct tamis_filter *f;
    return TRY(p, tamis_filter_open(path, &opt, &f, &p->diag)) == 0 ? f : NULL;
}

static void expect_lone(struct player *p, struct object *o, const char *path,
                        const struct look *look)
{
    struct tamis_filter_info info;
    struct tamis_filter *f = open_file(p, path, TAMIS_CHECK_LAZY);
    IN_LIB_VOID(steps_expect_filter(o->name, f, o, look));
    if (o->grows && IN_LIB(tamis_filter_info(f, &info, NULL)) == 0)
        note_grown(o, &info, look);
    IN_LIB_VOID(tamis_filter_close(f));
    o->standing = THERE;
    if (!o->lost_page)
        return;
    /* A reader that remembers no page as good finds the same. */
    f = open_file(p, path, TAMIS_CHECK_STRICT);
    struct keyset k = o->keys;
    struct promised_keys keys = promised_keys_of(&k, o, look);
    IN_LIB_VOID(expect_keys(o->name, f, &keys, true));
    IN_LIB_VOID(tamis_filter_close(f));
}

/* Until the engine has synced its file anything may be there: but what opens as the
 * filter that is meant, by its binding, must not deny a key. */
static void expect_embedded(struct player *p, const struct object *o, const char *path)
{
    struct look look = {.any_damage = o->standing != THERE};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (uint32_t i = 0; i <= (o->standing == CHANGING); i++) {
        char binding[16];
        struct object one = {.keys = i ? o->next : o->keys};
        struct tamis_filter *f;
        snprintf(binding, sizeof binding, "%u", o->rank + i);
        struct tamis_filter_options opt = {.size = sizeof opt,
                                           .identity.binding = binding,
                                           .identity.binding_bytes = strlen(binding),
                                           .fd = fd,
                                           .offset = PAGE_BYTES};
        int rc = IN_LIB(tamis_filter_open(NULL, &opt, &f, &p->diag));
        if (rc && o->standing == THERE)
            broken_steps("the embedded filter does not open: %s", p->diag.what);
        if (rc)
            continue;
        IN_LIB_VOID(steps_expect_filter(binding, f, &one, &look));
        IN_LIB_VOID(tamis_filter_close(f));
    }
    close(fd);
}

static void expect_files(struct player *p, const struct look *look)
{
    char path[2 * STEPS_PATH_BYTES];
    for (size_t i = 0; i < p->p->n_objects; i++) {
        struct object *o = &p->p->object[i];
        if (o->place == IN_STORE)
            continue;
        path_in(p, o->name, path);
        bool there = access(path, F_OK) == 0;
        if (!there && (o->standing == THERE || o->standing == CHANGING))
            broken_steps("the file %s is lost", o->name);
        if (there && o->place == EMBEDDED)
            expect_embedded(p, o, path);
        else if (there) /* R13: a file that has its name is whole, created or not */
            expect_lone(p, o, path, look);
        else
            o->standing = NOT_THERE;
    }
}

/* ---- all of it ---- */

size_t steps_expect(struct player *p, const struct look *look)
{
    struct tamis_snapshot *s;
    size_t n_files = 0;
    char path[2 * STEPS_PATH_BYTES];
    expect_files(p, look);
    if (p->p->store == NOT_THERE)
        return 0;
    path_in_store(p, "", path);
    if (!p->store && p->p->store == COMING &&
        IN_LIB(tamis_store_open(path, NULL, &p->store, &p->diag)) != 0) {
        p->p->store = NOT_THERE;
        return 0;
    }
    /* A catalog that is lost need not open before it is repaired. */
    if (!p->store && (p->p->lost || p->p->closed) && !p->p->repaired &&
        IN_LIB(tamis_store_open(path, NULL, &p->store, &p->diag)) != 0)
        return 0;
    if (!with_store(p) || TRY(p, tamis_snapshot_current(p->store, &s, &p->diag)) != 0)
        broken_steps("the store does not open: %s", p->diag.what);
    p->p->store = THERE;
    expect_complete(p);
    /* A repair that took good files for bad ones has set them aside. */
    if (is_hurt(p->p) || (look->any_damage && p->p->repaired))
        n_files = expect_hurt_store(p, s, look);
    else
        n_files = expect_whole_store(p->p, s, look);
    IN_LIB_VOID(tamis_snapshot_release(s));
    return n_files;
}

static void expect_only_ours(const char *store)
{
    static const char *const ours[] = {"catalog.lmdb", "catalog.lmdb-lock", "filters",
                                       "quarantine"};
    DIR *d = opendir(store);
    for (const struct dirent *e; d && (e = readdir(d));) {
        size_t i = 0;
        while (i < 4 && strcmp(ours[i], e->d_name) != 0)
            i++;
        if (i == 4 && e->d_name[0] != '.')
            broken_steps("left behind: %s", e->d_name);
    }
    if (d)
        closedir(d);
}

void steps_expect_swept(struct player *p)
{
    struct tamis_edit *e;
    struct tamis_snapshot *s;
    char path[2 * STEPS_PATH_BYTES];
    if (p->p->store != THERE || !with_store(p))
        return;
    if (TRY(p, tamis_edit_begin(p->store, NULL, &e, &p->diag)) == 0)
        IN_LIB_VOID(tamis_edit_abort(e));
    if (TRY(p, tamis_snapshot_current(p->store, &s, &p->diag)) != 0)
        return;
    path_in_store(p, "", path);
    size_t n_files = IN_LIB(count_listed_files(s)), n = count_filter_files(path);
    if (n != n_files && !is_hurt(p->p))
        broken_steps("%zu files for %zu that segments have", n, n_files);
    if (!p->lenient)
        expect_only_ours(path);
    IN_LIB_VOID(tamis_snapshot_release(s));
}

/* ---- files as they were ---- */

uint64_t steps_file_hash(const char *path)
{
    char opened[32]; /* another process may remove its name now */
    size_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 0;
    snprintf(opened, sizeof opened, "/proc/self/fd/%d", fd);
    uint8_t *bytes = file_bytes(opened, &n);
    uint64_t hash = XXH3_64bits(bytes, n) | 1;
    free(bytes);
    close(fd);
    return hash;
}

static uint64_t tree_sum;

static int sum_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)ftw;
    if (strstr(path, "-lock"))
        return 0;
    uint64_t sum = XXH3_64bits_withSeed(path, strlen(path),
                                        flag == FTW_F ? steps_file_hash(path) : 0);
    tree_sum += sum; /* whatever the order of a directory */
    return 0;
}

uint64_t steps_tree_hash(const char *path)
{
    tree_sum = 0;
    nftw(path, sum_one, 16, FTW_PHYS);
    return tree_sum;
}

/* Under its name, or with something behind it. */
static bool is_aside(const struct player *p, const struct kept *k, bool any)
{
    char path[2 * STEPS_PATH_BYTES], one[3 * STEPS_PATH_BYTES];
    bool found = false;
    path_in_store(p, "quarantine", path);
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d)) && !found;) {
        snprintf(one, sizeof one, "%s/%s", path, e->d_name);
        found = strncmp(e->d_name, k->name, strlen(k->name)) == 0 &&
                (any || steps_file_hash(one) == k->hash);
    }
    if (d)
        closedir(d);
    return found;
}

void steps_expect_kept(struct player *p, const struct look *look)
{
    for (size_t i = 0; i < p->p->n_kept; i++) {
        const struct kept *k = &p->p->kept[i];
        const struct object *o = k->object < 0 ? NULL : &p->p->object[k->object];
        char name[64], path[2 * STEPS_PATH_BYTES];
        /* A file that nothing names and that cannot be read is swept. */
        if ((k->sweepable && !p->p->lost) || (!o && look->any_damage))
            continue;
        snprintf(name, sizeof name, "%s%s",
                 strncmp(k->name, "catalog", 7) == 0 ? "" : "filters/", k->name);
        path_in_store(p, name, path);
        uint64_t hash = steps_file_hash(path);
        bool same = hash == k->hash || (hash && o && o->grows);
        if (!same && o && has_filter(p->p, o) && !look->any_damage)
            broken_steps("the good filter %s is not in its place", k->name);
        if (!same && !is_aside(p, k, look->any_damage))
            broken_steps("filter %s is lost", k->name);
    }
}

/* As the store was when the backup began. */
void steps_expect_copy(struct player *p, const struct look *look)
{
    char path[2 * STEPS_PATH_BYTES];
    struct promises promises = *p->p;
    struct player copy = {.p = &promises,
                          .dir = p->dir,
                          .store_name = "copy",
                          .returned = p->returned,
                          .ctx = p->ctx};
    path_in(p, "copy", path);
    bool there = access(path, F_OK) == 0;
    if (!there && p->p->backup == THERE)
        model_broken("the backup is not there");
    p->p->backup = there ? THERE : NOT_THERE;
    if (!there)
        return;
    steps_expect_kept(&copy, look);
    for (size_t i = 0; i < promises.n_objects; i++) {
        struct object *o = &promises.object[i];
        o->standing = THERE;
        o->keys = o->copied.keys;
        o->rank = o->copied.rank;
        o->bare = o->copied.bare;
        o->grows = o->copied.grows;
        o->watermark = o->in_backup - 1;
        o->stages = 0;
        o->seal = o->sealed ? COMING : o->seal;
        if (look->any_damage)
            o->worth = ROTTEN;
        if (o->place != IN_STORE || !o->in_backup)
            *o = (struct object){.standing = NOT_THERE};
    }
    steps_expect(&copy, look);
    player_end(&copy);
}

/* ---- going on ---- */

void steps_go_on(const struct promises *p, uint64_t *rng, const char *name,
                 char text[SCRIPT_BYTES])
{
    size_t n = 0;
    text[0] = 0;
    for (size_t i = 0; i < p->n_objects; i++) {
        const struct object *o = &p->object[i];
        const char *x = o->name;
        if (o->standing != THERE || !o->grows || o->worth == GONE ||
            n > SCRIPT_BYTES - 400)
            continue;
        if (o->seal == THERE || o->sealed) {
            n += (size_t)sprintf(text + n, "writer %s; ", x);
            continue;
        }
        n += (size_t)sprintf(
            text + n,
            "watch %s; writer %s; %s %s; replay %s %d; add %s %d; commit %s; ", x, x,
            draw_below(rng, 2) ? "alone" : "watch", x, x, draw_below(rng, 4) == 0, x,
            draw_below(rng, 2) ? 0 : (int)draw_below(rng, 4), x);
        if (draw_below(rng, 8) == 0)
            n += (size_t)sprintf(text + n, "seal %s; ", x);
        n += (size_t)sprintf(text + n, "%s %s; ", draw_below(rng, 2) ? "shut" : "kill",
                             x);
    }
    if (p->store == NOT_THERE)
        return;
    sprintf(text + n, "put %s 9000000 3", name);
}

/* Scenarios that are scripts: what stands before "now" is prepared, what follows may
 * fail, and what stands behind the next "now" is done when nothing fails any more.
 *
 * Afterwards all that was acknowledged is there; an edit that failed has changed
 * nothing, unless its outcome cannot be known; and what failed succeeds when it is
 * tried again, in the same store if that goes on, and in one that is opened afresh. */
#include "tests/faults/run.h"

struct player the_player;
static struct promises promises;
static struct script script;
static size_t body; /* where it begins */
static struct run *running;
static bool may_panic, gets_around, must_fail, has_packs;

/* ---- calls ---- */

void script_must(struct player *p, int rc, int expected, const char *call)
{
    CHECK(rc == expected, "%s: %s (%s), though nothing fails", call, tamis_strerror(rc),
          p->diag.what);
}

static void no_matter(struct player *p, int rc, int expected, const char *call)
{
    (void)p, (void)rc, (void)expected, (void)call;
}

static struct {
    uint64_t at_open, before; /* failed syncs */
} syncs;

/* As found in the file's cached bytes: an orderly end, and open? (A seal that was not
 * acknowledged may stand.) */
static bool is_clean(const struct object *o)
{
    static uint8_t raw[HEADER_MAX_BYTES];
    char path[2 * STEPS_PATH_BYTES];
    struct identity id;
    struct commit c;
    struct slot_health health;
    path_in(&the_player, o->name, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(pread(fd, raw, sizeof raw, 0) == sizeof raw, "no header");
    close(fd);
    CHECK(identity_decode(raw, sizeof raw, &id).code == VERDICT_OK, "identity");
    return commit_choose_slot(raw, &id, 1 << 30, &c, &health).code == VERDICT_OK &&
           c.clean && c.state == STATE_OPEN;
}

/* R4: from the first failed sync on nothing is promised any more. */
static void expect_poisoned(const struct player *p, int rc, const char *call)
{
    static const char *const promising[] = {"commit(", "seal(", "close("};
    const struct object *o =
        promised_object(p->p, p->at < script.n ? script.step[p->at].name[0] : "");
    bool failed_before = syncs.before > syncs.at_open;
    bool adds = strstr(call, "tamis_writer_add") != NULL, promises_all = false;
    for (size_t i = 0; i < 3; i++)
        promises_all |=
            strstr(call, "tamis_writer_") && strstr(call, promising[i]) != NULL;
    CHECK(rc != 0 || !promises_all || tally.syncs_failed == syncs.at_open,
          "%s succeeds after a failed sync", call);
    CHECK(rc == TAMIS_ERR_POISONED || !failed_before || (!promises_all && !adds),
          "%s after a failed sync: %s, not POISONED", call, tamis_strerror(rc));
    CHECK(!failed_before || !strstr(call, "tamis_writer_close") || o->place != LONE ||
              o->sealed || !is_clean(o),
          "clean, after a failed sync");
}

/* The disk failed while LMDB wrote: then the catalog is the old one or the new. The
 * same if a look at the file's name failed after the commit. */
static bool is_unsure(const struct player *p)
{
    const struct plan *plan = faults_plan();
    return may_panic ||
           (plan && (plan->fault->effect == PANIC || plan->fault->effect == DOUBT ||
                     plan->call == CALL_lmdb_pwrite || plan->call == CALL_space)) ||
           strstr(p->diag.what, "whether it was replaced") ||
           strstr(p->diag.what, "newest transaction") ||
           strstr(p->diag.what, "no catalog now");
}

static void may_fail(struct player *p, int rc, int expected, const char *call)
{
    struct run *r = running;
    if (!has_writer(p) && !strstr(call, "tamis_writer_close"))
        syncs.at_open = syncs.before;
    expect_poisoned(p, rc, call);
    syncs.before = tally.syncs_failed;
    p->lenient = tally.planned > 0;
    r->diag = p->diag;
    /* A snapshot remembers a pack that could not be opened. */
    if (rc && strcmp(call, "tamis_edit_pack") == 0 && tally.fired)
        r->n_failed++;
    else
        may_for(r, expected, rc, call);
    if (rc && rc != expected &&
        (strstr(call, "tamis_edit_commit") || strstr(call, "tamis_store_confirm")))
        p->unsure = is_unsure(p);
}

/* A file that cannot be read is left out of a copy, or is damage. */
static bool reading_failed(const struct plan *p)
{
    return p &&
           (p->call == CALL_pread || p->call == CALL_fstat || p->call == CALL_fstatat ||
            p->call == CALL_syscall || p->call == CALL_openat);
}

/* ---- a run ---- */

/* The files that a script has made before "now", if it leaves nothing open. This part
 * is not played in each run. */
static struct {
    const char *script;
    struct saved_tree tree;
    struct player player;
    struct promises promises;
} prepared;

static bool is_open(const struct player *p)
{
    bool open = p->store || p->edit || p->builder || p->held || has_writer(p);
    for (size_t i = 0; i < MAX_OBJECTS; i++)
        open |= p->reader[i] != NULL;
    return open;
}

static void prepare(const char *text)
{
    struct player *p = &the_player;
    if (text == prepared.script) {
        tree_put_back(&prepared.tree, p->dir);
        *p = prepared.player;
        promises = prepared.promises;
        return;
    }
    play(p, &script);
    if (is_open(p))
        return;
    tree_save(&prepared.tree, p->dir);
    prepared.player = *p;
    prepared.promises = promises;
    prepared.script = text;
}

void script_prepare(struct run *r, const struct scenario *s)
{
    static char dir[PATH_BYTES];
    struct plan first;
    running = r;
    memset(&promises, 0, sizeof promises);
    memset(&the_player, 0, sizeof the_player);
    memset(&syncs, 0, sizeof syncs);
    snprintf(dir, sizeof dir, "%s", r->dir);
    the_player = (struct player){
        .p = &promises, .dir = dir, .returned = script_must, .own = own_word};
    const char *text = s->first ? s->first + (s->first[0] == '>') : NULL;
    may_panic = text && plan_parse(text, &first) && first.fault->effect == PANIC;
    script.n = body = 0;
    gets_around = s->gets_around;
    must_fail = s->must_fail;
    has_packs = s->script && strstr(s->script, "pack");
    if (!s->script)
        return;
    CHECK(script_parse(s->script, &script), "no script");
    if (strstr(s->script, "now;")) {
        prepare(s->script);
        body = the_player.at;
    }
}

void script_body(struct run *r)
{
    the_player.returned = may_fail;
    the_player.misread = reading_failed(r->plan);
    the_player.at = body;
    play(&the_player, &script);
}

void script_skip(struct player *p, const char *word)
{
    while (strcmp(script.step[p->at].word->text, word) != 0)
        p->at++;
}

/* A pack that a fault kept shut is tried again in half a second. Until then its names
 * are unknown, but no key of any segment is absent everywhere. */
static bool waits_for_a_pack(struct tamis_snapshot *s)
{
    struct tamis_pack_info pack;
    struct tamis_key key;
    bool waits = false;
    for (size_t i = 0; IN_LIB(tamis_snapshot_pack_info(s, i, &pack)) == 0; i++)
        waits |= pack.error != 0;
    for (size_t i = 0; waits && i < promises.n_objects; i++) {
        const struct object *o = &promises.object[i];
        struct look look = {.any_damage = true};
        struct keyset set = o->keys;
        struct promised_keys keys = promised_keys_of(&set, o, &look);
        for (uint64_t k = 0; o->standing == THERE && k < keys.n && k < 20; k++)
            CHECK(!keys.key(&set, k, &key) ||
                      IN_LIB(ASK(s, ALL, KEYS(&key, 1))) != TAMIS_ABSENT,
                  "a key of %s is absent everywhere", o->name);
    }
    return waits;
}

/* After a fault, once it is gone: does the store that the body has left open still
 * work, without being opened anew? It must, but for the few faults that LMDB, or our
 * knowledge of what may be written, does not survive. */
static bool goes_on(struct run *r)
{
    const struct plan *p = r->plan;
    struct tamis_store_info info;
    struct tamis_snapshot *snapshot;
    if (!the_player.store)
        return false;
    int rc = IN_LIB(tamis_store_info(the_player.store, &info, &r->diag));
    if (rc == 0 && !info.read_only)
        rc = IN_LIB(tamis_snapshot_current(the_player.store, &snapshot, &r->diag));
    if (rc == 0 && !info.read_only) {
        bool waits = p && waits_for_a_pack(snapshot);
        IN_LIB_VOID(tamis_snapshot_release(snapshot));
        return !waits;
    }
    /* The disk failed while LMDB wrote its meta page, or a panic was played; or LMDB
     * lost its mapping. */
    bool may_end =
        may_panic ||
        (p && (p->fault->effect == PANIC || p->fault->effect == DOUBT ||
               p->call == CALL_lmdb_pwrite || p->call == CALL_space ||
               p->call == CALL_lmdb_mmap || p->call == CALL_mdb_env_set_mapsize));
    CHECK(rc == 0 || may_end, "the store fails on: %s", r->diag.what);
    return false;
}

static bool is_repair(const struct step *s)
{
    return strcmp(s->word->text, "repair") == 0;
}

/* The steps that failed, once more. */
static void again(struct player *p)
{
    p->at = body;
    play(p, &script);
    for (size_t i = body; i < p->at; i++)
        /* A repair that took good files for bad has set them aside, and says so. */
        CHECK(p->done[i] || (damage_expected && is_repair(&script.step[i])),
              "the next attempt: step %zu (%s) fails", i + 1,
              script.step[i].word->text);
}

static bool was_hurt(void)
{
    return promises.n_kept > 0 || promises.closed;
}

/* Noted by the last repair of the script: damage that cannot be mended. */
static uint64_t n_left_damaged(void)
{
    double n = 0;
    for (size_t i = 0; i < script.n; i++)
        if (is_repair(&script.step[i]))
            n = script.step[i].number[4];
    return (uint64_t)n;
}

static void count_noted(void *ctx, const struct tamis_repair_finding *f)
{
    *(uint64_t *)ctx += f->action == TAMIS_REPAIR_NOTED;
}

/* After a repair there is nothing to do, and the store serves. */
static void expect_settled(struct run *r, const struct look *look)
{
    struct player *p = &the_player;
    char path[2 * STEPS_PATH_BYTES];
    path_in_store(p, "", path);
    uint64_t tree = r->plan ? 0 : steps_tree_hash(path);
    const struct tamis_repair_report *report = &p->repair;
    uint64_t n_noted = 0;
    struct tamis_repair_options opt = {
        .size = sizeof opt, .found = count_noted, .ctx = &n_noted};
    MUST(r, tamis_store_repair(path, &opt, &p->repair, &r->diag));
    CHECK(n_noted <= n_left_damaged() || damage_expected,
          "noted, though nothing fails");
    CHECK(report->n_finished + report->n_rebuilt + report->n_quarantined +
                  (r->littered ? 0 : report->n_swept) ==
              0,
          "a repair of what is repaired does something");
    CHECK(r->plan || steps_tree_hash(path) == tree, "and changes something");
    steps_expect(p, look);
    steps_expect_kept(p, look);
    /* No file says that there is a segment without one: its engine does. */
    for (size_t i = 0; i < promises.n_objects; i++) {
        struct object *o = &promises.object[i];
        if (o->forgotten && o->bare) {
            o->standing = NOT_THERE;
            /* It may have stayed: then it is refused. */
            the_player.returned = no_matter;
            play_text(p, "bare %s", o->name);
            the_player.returned = script_must;
            o->standing = THERE;
        }
    }
    if (!damage_expected || !has_packs) /* else the pack may lie in quarantine/ */
        play_text(&the_player, "confirm");
    steps_expect(p, look);
}

/* It leaves nothing, but for a temporary that could not be removed. */
static void expect_no_copy(const struct run *r)
{
    DIR *d = opendir(r->dir);
    CHECK(d, "no directory");
    for (const struct dirent *e; (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        CHECK(strncmp(e->d_name, "copy", 4) != 0 ||
                  (r->littered && n > 4 && strcmp(e->d_name + n - 4, ".tmp") == 0),
              "left behind: %s", e->d_name);
    }
    closedir(d);
}

static void expect_copy(struct run *r, const struct look *look)
{
    struct tamis_repair_options opt = {.size = sizeof opt, .dry_run = 1};
    struct tamis_repair_report report;
    struct look copied = *look;
    char path[2 * STEPS_PATH_BYTES];
    copied.any_damage |= reading_failed(r->plan);
    steps_expect_copy(&the_player, &copied);
    for (size_t i = 0; i < promises.n_objects; i++)
        if (promises.object[i].worth == ROTTEN)
            return;
    path_in(&the_player, "copy", path);
    MUST(r, tamis_store_repair(path, &opt, &report, &r->diag));
    if (r->littered)
        report.n_swept = 0; /* LMDB's lock file of the new catalog */
    CHECK(report.n_rebuilt + report.n_quarantined + report.n_swept == 0,
          "repair finds something in a copy");
}

/* The directory has no files but the scenario's. */
static void expect_known(const struct run *r)
{
    DIR *d = opendir(r->dir);
    CHECK(d, "no directory");
    for (const struct dirent *e; (e = readdir(d)) && !r->littered;) {
        bool known = e->d_name[0] == '.' || strcmp(e->d_name, "store") == 0 ||
                     strcmp(e->d_name, "copy") == 0;
        for (size_t i = 0; i < promises.n_objects; i++)
            known |= strcmp(e->d_name, promises.object[i].name) == 0;
        CHECK(known, "left behind: %s", e->d_name);
    }
    closedir(d);
}

/* Writers replay, and go on. */
static void go_on(struct player *p)
{
    for (size_t i = 0; i < promises.n_objects; i++) {
        const struct object *o = &promises.object[i];
        if (!o->grows || o->standing != THERE || o->worth == GONE)
            continue;
        const char *x = o->name;
        if (o->sealed)
            play_text(p, "%s %s", p->writer[i] ? "shut" : "writer", x);
        else
            play_text(p, "add %s 30; commit %s; shut %s", x, x, x);
    }
}

/* The catalog has heard of each seal, and what was closed is clean. */
static void expect_ends(struct player *p)
{
    struct tamis_segment_info info;
    struct tamis_snapshot *s;
    size_t index;
    for (size_t i = 0; i < promises.n_objects; i++) {
        const struct object *o = &promises.object[i];
        if (o->place == LONE && o->grows && o->standing == THERE && !o->sealed)
            CHECK(is_clean(o), "closed, and not clean");
        if (damage_expected || o->place != IN_STORE || !o->grows || o->seal != THERE ||
            o->standing != THERE || o->worth != GOOD)
            continue;
        CHECK(with_store(p) &&
                  IN_LIB(tamis_snapshot_current(the_player.store, &s, NULL)) == 0 &&
                  find_segment(s, o->name, &index) &&
                  tamis_snapshot_segment(s, index, &info) == 0,
              "no segment %s", o->name);
        CHECK(info.state == TAMIS_SEGMENT_SEALED,
              "sealed, and the catalog does not know");
        IN_LIB_VOID(tamis_snapshot_release(s));
    }
}

void script_check(struct run *r)
{
    struct player *p = &the_player;
    struct look look = {.rotten_slot = true, .any_damage = damage_expected};
    p->returned = script_must;
    p->unsure = false;
    p->lenient = r->plan;
    p->misread = damage_expected;
    CHECK(!must_fail || r->plan || !p->done[body], "the first call did not fail");
    for (size_t i = body; i < p->at && !r->plan && (!tally.preceded || gets_around);
         i++)
        CHECK(p->done[i], "step %zu (%s) fails, though nothing fails", i + 1,
              script.step[i].word->text);
    if (promises.backup == COMING && !r->littered)
        expect_no_copy(r);
    steps_expect_readers(p, damage_expected);
    bool went_on = goes_on(r);
    if (went_on) {
        steps_expect(p, &look);
        if (!r->littered)
            again(p);
        if (!was_hurt())
            go_on(p); /* with a writer that is still open */
    }
    player_end(p);
    if (!went_on || r->littered) {
        steps_expect(p, &look);
        again(p);
        if (!was_hurt())
            go_on(p);
        player_end(p);
    }
    p->lenient = false;
    play(p, &script); /* what stands behind the second "now" */
    if (promises.backup == THERE)
        expect_copy(r, &look);
    if (promises.repaired || was_hurt())
        expect_settled(r, &look);
    player_end(p);
    steps_expect(p, &look);
    expect_ends(p);
    expect_known(r);
    p->lenient = r->littered;
    steps_expect_swept(p);
    player_end(p);
}

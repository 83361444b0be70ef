/* tamis verify: is every page of every filter and pack whole, and every key in it? */
#include "command.h"

/* ---- packs: which pages are damaged, and which segments that touches ---- */

/* A snapshot's checked pack. Another snapshot's pack may be at its address later. */
struct checked {
    const struct tamis_filter *pack;
    uint8_t uuid[TAMIS_UUID_BYTES];
    struct tamis_verify report;
    struct tamis_diag diag;
    int err;
    uint32_t band; /* whose rows were asked for last */
    struct tamis_verify rows;
    size_t n_segments, n_affected, n_nameless;
    size_t n_listed; /* of those affected: repair makes them anew from their lists */
};

/* The packs that were checked; each is once. */
struct checked_packs {
    const char *store; /* its path */
    json_t *damaged;   /* of these an object each; NULL: text */
    struct checked *at;
    size_t n;
};

/* The pages of a column's rows: all columns of a band have the same. */
static const struct tamis_verify *its_rows(struct checked *c,
                                           struct tamis_snapshot *snapshot, size_t i)
{
    struct tamis_pack_place place;
    tamis_snapshot_pack(snapshot, i, NULL, &place, NULL);
    if (c->rows.n_pages == 0 || c->band != place.band)
        tamis_snapshot_pack(snapshot, i, NULL, NULL, &c->rows);
    c->band = place.band;
    return &c->rows;
}

/* All segments for which the pack answers. */
static void count_affected(struct checked *c, struct tamis_snapshot *snapshot)
{
    struct tamis_segment_info info;
    struct tamis_filter *pack;
    for (size_t i = 0; tamis_snapshot_next(snapshot, &i); i++)
        if (tamis_snapshot_pack(snapshot, i, &pack, NULL, NULL) == 0 &&
            pack == c->pack) {
            c->n_segments++;
            c->n_nameless +=
                tamis_snapshot_segment(snapshot, i, &info) == 0 && info.name == NULL;
            if (its_rows(c, snapshot, i)->n_damaged == 0)
                continue;
            c->n_affected++;
            c->n_listed += advice_from_list(snapshot, i) != NULL;
        }
}

static void damage_text(const struct checked *c, char *text, size_t room)
{
    const char *advice =
        c->n_affected == 0 ? "'tamis pack --repack' writes a whole pack"
        : c->n_listed == c->n_affected
            ? "'tamis repair' makes these anew from their lists"
        : c->n_listed > 0
            ? "'tamis repair' makes those with lists anew; build the rest "
              "from their keys"
            : "build these anew from their keys";
    int n = snprintf(text, room,
                     "%llu of its %llu pages damaged: ", LLU(c->report.n_damaged),
                     LLU(c->report.n_pages));
    if (c->n_nameless > 0)
        snprintf(text + n, room - (size_t)n, "the names of %zu of its %s are lost: %s",
                 c->n_nameless, COUNTED(c->n_segments, "segment"), advice_pack);
    else
        snprintf(text + n, room - (size_t)n, "segments affected: %zu of %zu; %s%s",
                 c->n_affected, c->n_segments, advice,
                 c->n_affected > 0 && c->n_affected < c->n_segments
                     ? ", and 'tamis pack --repack' saves the others"
                     : "");
}

/* The file is within the store. `counts` (NULL: text) has more fields of JSON. */
static void print_pack(const struct checked_packs *packs, const char *file,
                       const char *what, json_t *counts)
{
    complain(0, "%s/%s: %s", packs->store, file, what);
    if (packs->damaged == NULL) {
        progress_wipe();
        printf("-\tpack\t%s: %s\n", file, what);
        return;
    }
    json_put(counts, "file", json_string(file));
    json_put(counts, "what", json_string(what));
    json_put(packs->damaged, NULL, counts);
}

static void print_damage(const struct checked_packs *packs, const struct checked *c,
                         const char *path)
{
    json_t *counts = NULL;
    char what[320];
    damage_text(c, what, sizeof(what));
    if (packs->damaged != NULL)
        counts =
            json_of("pages", json_count(c->report.n_pages), "damaged",
                    json_count(c->report.n_damaged), "first_damaged",
                    json_count(c->report.first_damaged), "segments",
                    json_count(c->n_segments), "affected", json_count(c->n_affected));
    print_pack(packs, path + strlen(packs->store) + 1, what, counts);
}

/* Names the packs on which the catalog does not agree: no line of a segment tells of
 * them. */
static int verify_unlisted(const struct checked_packs *packs, struct tamis_store *store,
                           struct tamis_snapshot *snapshot)
{
    struct tamis_pack_info pack;
    char file[64];
    int status = EXIT_DONE;
    for (size_t i = 0; tamis_snapshot_pack_info(snapshot, i, &pack) == 0; i++)
        if (pack_is_unlisted(&pack) && pack_is_lost(store, &pack)) {
            pack_file_name(pack.uuid, file);
            print_pack(packs, file, PACK_UNLISTED,
                       packs->damaged ? memory_or_exit(json_object()) : NULL);
            status = EXIT_DAMAGE;
        }
    return status;
}

static struct checked *check_pack(struct checked_packs *packs,
                                  struct tamis_snapshot *snapshot, size_t index,
                                  struct tamis_filter *pack, const char *path,
                                  int *status)
{
    struct tamis_pack_place place;
    tamis_snapshot_pack(snapshot, index, NULL, &place, NULL);
    for (size_t i = 0; i < packs->n; i++)
        if (packs->at[i].pack == pack &&
            memcmp(packs->at[i].uuid, place.uuid, sizeof(place.uuid)) == 0)
            return &packs->at[i];
    packs->at = memory_or_exit(realloc(packs->at, (packs->n + 1) * sizeof(*packs->at)));
    struct checked *c = &packs->at[packs->n++];
    *c = (struct checked){.pack = pack};
    memcpy(c->uuid, place.uuid, sizeof(c->uuid));
    c->err = tamis_filter_verify(pack, &c->report, &c->diag);
    *status = status_of_error(c->err);
    if (c->report.n_damaged > 0) {
        count_affected(c, snapshot);
        print_damage(packs, c, path);
    } else if (c->err != 0) {
        complain_error(c->err, &c->diag, path, NULL);
    }
    return c;
}

/* Checks a segment that is a column of `pack`, and prints its result.
 * With the first column of a damaged pack it prints the pack's damage, and sets
 * *of_pack to its status. Returns the segment's own: a damaged page costs the segments
 * that have rows in it, and no others. */
static int verify_column(struct checked_packs *packs, struct tamis_snapshot *snapshot,
                         size_t index, struct tamis_filter *pack, const char *path,
                         json_t *list, int *of_pack)
{
    struct checked *c = check_pack(packs, snapshot, index, pack, path, of_pack);
    bool known = c->err == 0 || c->report.n_damaged > 0, good;
    struct tamis_segment_info info;
    const struct tamis_verify *rows = its_rows(c, snapshot, index);
    char what[128];
    tamis_snapshot_segment(snapshot, index, &info);
    good = known && rows->n_damaged == 0 && info.name != NULL;
    if (!known)
        snprintf(what, sizeof(what), "%.100s",
                 c->diag.what[0] ? c->diag.what : tamis_strerror(c->err));
    else if (rows->n_damaged > 0)
        snprintf(what, sizeof(what), "column; %llu of the %llu pages of its rows %s",
                 LLU(rows->n_damaged), LLU(rows->n_pages),
                 rows->n_damaged == 1 ? "is damaged" : "are damaged");
    else if (info.name == NULL)
        snprintf(what, sizeof(what), "column; its name is lost");
    else
        snprintf(what, sizeof(what), "column of a pack of %llu pages%s",
                 LLU(c->report.n_pages),
                 c->err ? ", of which those with its rows are good" : "");
    if (info.name == NULL && list == NULL && c->report.n_damaged > 0)
        return status_of_error(c->err); /* the line of its pack counts it */
    const char *advice = known && rows->n_damaged > 0
                             ? advice_from_list(snapshot, index)
                         : known ? NULL
                                 : usual_advice(c->err);
    if (known && rows->n_damaged > 0 && advice == NULL)
        advice = usual_advice(TAMIS_ERR_DAMAGED);
    verify_line(list, (struct name){info.name, info.name_bytes},
                good         ? "ok"
                : c->err > 0 ? "unreadable"
                             : "damaged",
                path, what, rows, advice);
    return good ? EXIT_DONE : status_of_error(c->err);
}

/* ---- filters ---- */

struct verify {
    const struct options *o;
    struct tamis_store *store;
    struct tamis_snapshot *snapshot;
    struct tamis_domain domain;
    json_t *list; /* NULL: text */
    uint64_t damaged;
    int status; /* the first that was not 0 */
    struct against against;
    struct checked_packs packs;
    char nameless[64]; /* the file of the segment before, which had no name */
};

static bool with_keys(const struct options *o)
{
    return given(o, OPT_AGAINST) || given(o, OPT_AGAINST_EACH);
}

/* Bytes to be read: keys, where there are any, take more time than pages. */
static uint64_t work(const struct verify *v, const size_t *picked, size_t n)
{
    const struct options *o = v->o;
    struct tamis_segment_info info;
    uint64_t total = given(o, OPT_AGAINST) ? regular_bytes(o->against) : 0;
    for (size_t i = 1; given(o, OPT_AGAINST_EACH) && i < o->n_args; i++)
        total += regular_bytes(o->args[i]);
    for (size_t at = 0, i;
         !with_keys(o) && next_picked(v->snapshot, picked, n, &at, &i);)
        if (tamis_snapshot_segment(v->snapshot, i, &info) == 0)
            total += info.file_bytes;
    return total;
}

static void note(struct verify *v, int status)
{
    if (v->status == EXIT_DONE)
        v->status = status;
}

/* A segment, in the snapshot where it was found with its file. */
struct place {
    struct tamis_snapshot *snapshot; /* another one than verify's: to be released */
    size_t index;
    struct tamis_segment_info info;
    struct tamis_filter *filter; /* NULL: bare */
    bool column;                 /* then the filter is the pack */
    struct tamis_diag diag;
    struct opened_list its;
    bool gone; /* meanwhile */
};

static void leave(const struct verify *v, struct place *p)
{
    tamis_filter_close(p->its.list);
    if (!p->column)
        tamis_filter_close(p->filter);
    if (p->snapshot != v->snapshot)
        tamis_snapshot_release(p->snapshot);
}

/* Opens the filter and the list of a segment, where the snapshot has them. */
static int open_both(struct place *p)
{
    struct tamis_filter_info f;
    int err = tamis_snapshot_segment(p->snapshot, p->index, &p->info);
    p->its.err = TAMIS_ERR_NO_SEGMENT;
    if (err != 0)
        return err;
    p->its.err = tamis_snapshot_list(p->snapshot, p->index, &p->its.list, &p->its.diag);
    if (p->info.state == TAMIS_SEGMENT_BARE)
        return 0;
    p->column = is_column(p->snapshot, p->index, NULL);
    err = p->column
              ? tamis_snapshot_pack(p->snapshot, p->index, &p->filter, NULL, NULL)
              : tamis_snapshot_filter(p->snapshot, p->index, &p->filter, &p->diag);
    /* Was its own file made for this segment? No reader asks. */
    if (err == 0 && !p->column && tamis_filter_info(p->filter, &f, NULL) == 0 &&
        f.name_bytes > 0 &&
        (f.name_bytes != p->info.name_bytes ||
         memcmp(f.name, p->info.name, f.name_bytes) != 0)) {
        err = TAMIS_ERR_MISMATCH;
        p->diag = (struct tamis_diag){.code = err, .what = "made for another segment"};
    }
    return err;
}

/* Finds the filter and the list of a segment. If a file is missing, another process may
 * have dropped, replaced or packed the segment since the snapshot: a newer one tells.
 * Both are then taken from that: an older filter lacks keys of a newer list. */
static int find_filter(const struct verify *v, size_t i, struct place *p)
{
    *p = (struct place){.snapshot = v->snapshot, .index = i};
    for (;;) {
        struct place newer = {.snapshot = NULL};
        int err = open_both(p);
        bool missing = (err == ENOENT && !p->column) || p->its.err == ENOENT;
        if (!missing)
            return err;
        enum fate fate = segment_now(v->store, &p->info, &newer.snapshot, &newer.index);
        if (fate != SEGMENT_MOVED) { /* it stays: registered, and lost */
            tamis_snapshot_release(newer.snapshot);
            p->gone = fate == SEGMENT_DROPPED;
            return p->gone ? TAMIS_ERR_NO_SEGMENT : err;
        }
        leave(v, p);
        *p = newer;
    }
}

static const char *advice_bad(const void *place, int err)
{
    const struct place *p = place;
    return err == TAMIS_ERR_MISMATCH && advice_from_list(p->snapshot, p->index) != NULL
               ? "put its own file in its place, or 'tamis repair' makes it anew from "
                 "its list"
           : err == ENOENT || err == TAMIS_ERR_NOT_TAMIS || err == TAMIS_ERR_DAMAGED
               ? advice_from_list(p->snapshot, p->index)
               : NULL;
}

/* A lost filter is damage of the store. A filter that an error keeps from being read
 * may be whole. */
static int report_unopened(struct verify *v, const struct place *p, const char *path,
                           int err)
{
    bool bad = err == ENOENT || err == TAMIS_ERR_NOT_TAMIS ||
               err == TAMIS_ERR_DAMAGED || err == TAMIS_ERR_MISMATCH;
    const char *why = p->diag.what[0] ? p->diag.what : tamis_strerror(err);
    const char *advice = bad ? advice_bad(p, err) : NULL;
    bool named = p->info.name != NULL;
    char what[400];
    if (advice == NULL)
        advice = advice_unread(err, why);
    snprintf(what, sizeof(what), "%s%s%s", named ? "" : p->info.file, named ? "" : ": ",
             why);
    /* One line for all whose names are in a pack that cannot be used. */
    if (named || v->list != NULL || strcmp(v->nameless, p->info.file) != 0)
        verify_line(v->list, (struct name){p->info.name, p->info.name_bytes},
                    err == ENOENT ? "lost" : "unreadable", path, what, NULL, advice);
    snprintf(v->nameless, sizeof(v->nameless), "%s", named ? "" : p->info.file);
    complain_error(err, &p->diag, path, advice);
    return status_unread(err);
}

/* The caller leaves the place. */
static bool verify_segment(struct verify *v, size_t i, struct place *p)
{
    int err = find_filter(v, i, p), status, of_pack = EXIT_DONE;
    if (p->gone) { /* meanwhile; it is ignored, unless it was named */
        if (v->o->n_args > 1)
            note(v, complain(EXIT_NONE,
                             "%s: segment '%s' has just been dropped: 'tamis ls' lists "
                             "the segments",
                             v->o->args[0], NAME(p->info.name, p->info.name_bytes)));
        return false;
    }
    if (err != 0 && p->info.file[0] == '\0') {
        note(v, complain_error(err, NULL, v->o->args[0], NULL));
        return false;
    }
    struct name name = (struct name){p->info.name, p->info.name_bytes};
    if (err == 0 && p->info.state == TAMIS_SEGMENT_BARE) {
        verify_line(v->list, name, "bare", "", NULL, NULL, NULL);
        return true;
    }
    char *path =
        memory_or_exit(malloc(strlen(v->o->args[0]) + strlen(p->info.file) + 2));
    sprintf(path, "%s/%s", v->o->args[0], p->info.file);
    status = err         ? report_unopened(v, p, path, err)
             : p->column ? verify_column(&v->packs, p->snapshot, p->index, p->filter,
                                         path, v->list, &of_pack)
                         : verify_one(p->filter, name, path, advice_bad, p, v->list);
    v->damaged += status != EXIT_DONE;
    if (!with_keys(v->o))
        progress_advance(0, p->info.file_bytes);
    note(v, status);
    note(v, of_pack);
    note(v, verify_its_list(&p->its, name, v->o->args[0], v->list));
    free(path);
    return true;
}

/* The rows of a column, where they are: a copy of it would cost more. */
static size_t probe_rows(void *ctx, uint64_t tag, const uint64_t *hashes, size_t n,
                         uint64_t *absent)
{
    struct place *p = ctx;
    struct tamis_target target = tamis_snapshot_target(p->snapshot, p->index);
    const struct tamis_query query = {.size = sizeof(query),
                                      .targets = &target,
                                      .n_targets = 1,
                                      .hashes = hashes,
                                      .tag = tag,
                                      .n_keys = n,
                                      .absent_from_all = absent};
    return tamis_snapshot_query(p->snapshot, &query, NULL);
}

/* Against a file of keys, or (NULL) the segment's own list. It asks the filter, not the
 * store's list: an unconfirmed list answers nothing, and this check shows whether it
 * may be confirmed. A segment without a filter has every key. */
static int against(struct verify *v, const char *keyfile, struct place *p)
{
    struct name name = {p->info.name, p->info.name_bytes};
    struct tamis_filter *copy = NULL;
    batch_fn *ask = probe_rows;
    void *ctx = p;
    if (!p->column || tamis_snapshot_target(p->snapshot, p->index).refusal != 0) {
        if (p->column) /* if it fails, that was told: it has every key */
            tamis_snapshot_filter(p->snapshot, p->index, &copy, NULL);
        ask = probe_filter;
        ctx = p->column ? copy : p->filter;
    }
    int status = keyfile == NULL ? against_its_list(&v->against, &p->its, v->domain.tag,
                                                    name, v->o, ask, ctx)
                                 : against_list(&v->against, keyfile, v->o, &v->domain,
                                                name, ask, ctx);
    tamis_filter_close(copy);
    return status;
}

/* A segment, and the keys that it should have (NULL: none are at hand). */
static void check_segment(struct verify *v, size_t i, const char *keyfile)
{
    struct place p;
    if (verify_segment(v, i, &p) && (keyfile != NULL || given(v->o, OPT_AGAINST_LIST)))
        note(v, against(v, keyfile, &p));
    leave(v, &p);
}

/* --against-each: every key file against the segment of its name. */
static void verify_each(struct verify *v)
{
    const struct options *o = v->o;
    for (size_t i = 1; i < o->n_args; i++) {
        struct name name = name_of_file(o->args[i], o->strip);
        struct tamis_target target;
        int err = tamis_snapshot_find(v->snapshot, name.bytes, name.n_bytes, NULL, 0, 0,
                                      &target);
        if (err != 0) {
            note(v, err == TAMIS_ERR_NO_SEGMENT
                        ? complain(EXIT_NONE, "%s: no segment '%s' for %s: build it",
                                   o->args[0], NAME(name.bytes, name.n_bytes),
                                   PATH(o->args[i]))
                        : not_found(err, v->snapshot, o->args[0], name));
            continue;
        }
        check_segment(v, target.ordinal - 1, o->args[i]);
    }
}

static void orphan(void *ctx, const struct tamis_repair_finding *f)
{
    const struct verify *v = ctx;
    if (v->list == NULL) {
        printf("-\torphan\t%s: %s\n", PATH(f->file), f->what);
        return;
    }
    json_put(v->list, NULL,
             json_of("file", json_text(f->file), "what", json_string(f->what)));
}

static void verify(struct verify *v)
{
    const struct options *o = v->o;
    size_t *picked = NULL, n = 0;
    if (!given(o, OPT_AGAINST_EACH))
        v->status = pick_named(v->snapshot, o->args[0], o->args + 1, o->n_args - 1,
                               &picked, &n);
    if (given(o, OPT_JSON))
        v->list = json_stream(memory_or_exit(json_object()), "segments");
    progress_start("verify", work(v, picked, n));
    if (given(o, OPT_AGAINST_EACH))
        verify_each(v);
    for (size_t at = 0, i; next_picked(v->snapshot, picked, n, &at, &i);) {
        check_segment(v, i, given(o, OPT_AGAINST) ? o->against : NULL);
        if (!output_works())
            break;
    }
    free(picked);
    progress_clear();
}

static void finish(struct verify *v)
{
    const struct options *o = v->o;
    bool complete = tamis_snapshot_info(v->snapshot).complete;
    json_t *rest = NULL;
    if (o->n_args == 1 && output_works())
        note(v, verify_unlisted(&v->packs, v->store, v->snapshot));
    if (o->n_args == 1 && v->list == NULL && !complete)
        puts("-\tunconfirmed\tsegments may be missing: see 'tamis help repair'");
    if (v->list != NULL) {
        json_stream(json_of("damaged_segments", json_count(v->damaged), "complete",
                            json_boolean(complete), "packs", v->packs.damaged),
                    "orphans");
        rest = memory_or_exit(json_object());
    }
    /* Orphans cost room and no key: they are listed, and are no failure. */
    if (o->n_args == 1 && output_works()) {
        struct tamis_diag diag = {0};
        int err = tamis_store_orphans(v->store, orphan, v, NULL, &diag);
        if (err == TAMIS_ERR_BUSY && v->list == NULL)
            printf("-\torphan\tnot looked for: %s\n", diag.what);
        else if (err != 0 && err != TAMIS_ERR_BUSY)
            note(v, complain_error(err, &diag, o->args[0], NULL));
    }
    if (with_keys(o) || given(o, OPT_AGAINST_LIST))
        note(v, against_end(&v->against, o->args[0], rest));
    else
        json_decref(v->against.list);
    if (v->list != NULL)
        json_end(rest);
}

static int run(int argc, char **argv)
{
    struct verify v = {0};
    struct options o;
    parse_options(argc, argv, 1, 0, &o);
    if (given(&o, OPT_AGAINST) && (o.n_args != 2 || given(&o, OPT_AGAINST_EACH)))
        usage_error("--against checks one SEGMENT; --against-each many");
    if (given(&o, OPT_AGAINST_LIST) && with_keys(&o))
        usage_error("--against-list reads no keys: leave out --against%s",
                    given(&o, OPT_AGAINST) ? "" : "-each");
    if (given(&o, OPT_AGAINST_EACH) && o.n_args < 2)
        usage_error("--against-each needs key files");
    if (given(&o, OPT_AGAINST_EACH))
        check_key_files(o.args + 1, o.n_args - 1, o.strip, "check one at a time");
    if (given(&o, OPT_STRIP) && !given(&o, OPT_AGAINST_EACH))
        usage_error("--strip is for --against-each");
    if (given(&o, OPT_EMPTY) && !with_keys(&o))
        usage_error("--empty is for --against and --against-each");
    store_snapshot(o.args[0], &v.store, &v.snapshot);
    v.o = &o;
    v.against.by_hash = given(&o, OPT_AGAINST_LIST);
    v.packs.store = o.args[0];
    v.domain = tamis_snapshot_info(v.snapshot).domain;
    if (given(&o, OPT_JSON)) {
        v.packs.damaged = memory_or_exit(json_array());
        v.against.list = memory_or_exit(json_array());
    }
    verify(&v);
    finish(&v);
    free(v.packs.at);
    tamis_snapshot_release(v.snapshot);
    tamis_store_close(v.store);
    return v.status;
}

const struct command cmd_verify = {
    .name = "verify",
    .arguments = "STORE [SEGMENT...] [--against[-each] KEYFILE...]",
    .summary = "check every page, and every key",
    .about =
        "Checks every page of the filters, a line for each segment: ok, bare (no "
        "filter), damaged, lost or unreadable. If something is wrong, the line ends "
        "with advice. Damage costs disk reads, never keys. Filters replaced meanwhile "
        "are checked anew, dropped ones ignored. A damaged page of a pack costs the "
        "segments that have rows in it; a line says how many. Others name packs that "
        "the catalog disagrees on, whose segments are not listed, and a list that is "
        "unconfirmed. Files of no segment are listed as orphan, which is no damage: an "
        "edit may remove them, 'tamis repair' sets them aside: repair first if "
        "catalog.lmdb was replaced.\n",
    .options = {OPTION(AGAINST), OPTION(AGAINST_EACH), OPTION(AGAINST_LIST),
                OPTION(STRIP),
                OPTION(EMPTY, "accept a list without keys: it checks nothing"),
                OPTION(JSON), OPTIONS(KEY_FLAGS)},
    .examples = "tamis verify store\n"
                "tamis verify store --against-each lists/*.keys --strip .keys\n",
    .run = run,
};

/* tamis probe: which segments may hold a key? */
#include "command.h"

struct probe {
    const struct options *o;
    struct tamis_snapshot *snapshot;
    struct tamis_target *targets; /* NULL: all segments, by number; */
    struct name *names;           /* these are looked up where they are listed */
    uint32_t *found;              /* room for all candidates, */
    uint8_t *why;                 /* and for their reasons */
    size_t n;                     /* segments that are asked */
    bool complete;
    bool tells_any; /* whether any may have the key, and nothing else */
    struct answers answers;
    enum tamis_answer last;
};

static struct tamis_target target_of(const struct probe *p, size_t segment)
{
    if (p->targets != NULL)
        return p->targets[segment];
    struct tamis_target target = tamis_snapshot_target(p->snapshot, segment);
    target.min_watermark = p->o->min_watermark;
    return target;
}

/* Few segments are listed of many that are asked. */
static struct name name_of(const struct probe *p, size_t segment)
{
    struct tamis_segment_info info;
    if (p->names != NULL)
        return p->names[segment];
    tamis_snapshot_segment(p->snapshot, segment, &info);
    return (struct name){info.name, info.name_bytes};
}

/* Is the segment a candidate for the key? */
static bool list_pair(struct probe *p, const struct tamis_key *key, size_t segment)
{
    struct tamis_target target = target_of(p, segment);
    enum tamis_reason why;
    if (tamis_snapshot_probe(p->snapshot, &target, key, &why) == TAMIS_ABSENT)
        return false;
    answer_pair(&p->answers, key, name_of(p, segment), why);
    return true;
}

/* Prints the answer of a segment, ABSENT as well. */
static bool explain_pair(struct probe *p, const struct tamis_key *key, size_t segment)
{
    struct tamis_target target = target_of(p, segment);
    struct tamis_explanation e;
    bool listed = tamis_snapshot_explain(p->snapshot, &target, key, &e) != TAMIS_ABSENT;
    answer_explained(&p->answers, key, name_of(p, segment), &e);
    return listed;
}

/* Each segment that may have the key; of all segments few do. */
static bool list_candidates(struct probe *p, const struct tamis_key *key)
{
    size_t n = 0;
    struct tamis_query query = {
        .size = sizeof(query), .all = 1, .keys = key, .n_keys = 1};
    if (!p->tells_any) {
        query.candidates = p->found;
        query.reasons = p->why;
        query.max_candidates = tamis_snapshot_info(p->snapshot).n_numbers;
        query.n_candidates = &n;
    }
    bool may = tamis_snapshot_query(p->snapshot, &query, NULL) == 0;
    for (size_t i = 0; i < n; i++)
        answer_pair(&p->answers, key, name_of(p, p->found[i]),
                    (enum tamis_reason)p->why[i]);
    return may;
}

static bool list_each(struct probe *p, const struct tamis_key *key,
                      bool (*list)(struct probe *, const struct tamis_key *, size_t))
{
    bool listed = false;
    for (size_t i = 0; p->targets != NULL && i < p->n; i++)
        listed |= list(p, key, i);
    for (size_t i = 0; p->targets == NULL && tamis_snapshot_next(p->snapshot, &i); i++)
        listed |= list(p, key, i);
    return listed;
}

static void list_key(struct probe *p, const struct tamis_key *key)
{
    bool each = p->targets != NULL || p->o->min_watermark > 0;
    bool listed = !p->complete || p->n == 0;
    answer_begin(&p->answers, key);
    if (p->answers.explain)
        listed |= list_each(p, key, explain_pair);
    if (p->answers.explain && p->answers.json)
        answer_candidates(&p->answers);
    if (!p->answers.explain || p->answers.json)
        listed |= each ? list_each(p, key, list_pair) : list_candidates(p, key);
    /* An incomplete catalog may lack a segment that has the key. */
    if (!p->complete)
        answer_pair(&p->answers, key, (struct name){NULL, 0}, TAMIS_UNKNOWN_SEGMENT);
    p->last = listed ? TAMIS_MAYBE : TAMIS_ABSENT;
    answer_end(&p->answers, key, p->last, p->n);
}

static int ask(void *ctx, const struct tamis_key *keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        list_key(ctx, &keys[i]);
    return EXIT_DONE;
}

/* Finds the segments of --segment. A missing segment, or one with another binding, is
 * reported and still answers MAYBE. */
static int find_named(struct probe *p)
{
    const struct options *o = p->o;
    int status = EXIT_DONE;
    for (size_t i = 0; i < p->n; i++) {
        struct name name = name_of_text(o->segments.at[i]);
        int err = tamis_snapshot_find(
            p->snapshot, name.bytes, name.n_bytes, o->binding_bytes ? o->binding : NULL,
            o->binding_bytes, o->min_watermark, &p->targets[i]);
        p->names[i] = name;
        if (err == TAMIS_ERR_MISMATCH)
            err = complain(EXIT_DAMAGE,
                           "%s: segment '%s' has another binding: read it, or build "
                           "its filter anew",
                           o->args[0], NAME(name.bytes, name.n_bytes));
        else if (err != 0)
            err = not_found(err, p->snapshot, o->args[0], name);
        status = first_failure(status, err);
    }
    return status;
}

static int probe(struct probe *p)
{
    const struct options *o = p->o;
    struct tamis_domain domain = tamis_snapshot_info(p->snapshot).domain;
    int named = EXIT_DONE, status;
    size_t n;
    p->n = o->segments.n ? o->segments.n : tamis_snapshot_info(p->snapshot).n_segments;
    if (o->segments.n > 0)
        named = find_named(p);
    n = tamis_snapshot_info(p->snapshot).n_numbers + 1;
    p->found = memory_or_exit(calloc(n, sizeof(*p->found)));
    p->why = memory_or_exit(calloc(n, sizeof(*p->why)));
    p->tells_any = given(o, OPT_QUIET) && !given(o, OPT_COUNT);
    p->answers = answers_for(o);
    status = ask_keys(o, &domain, ask, p);
    if (status == EXIT_DONE && given(o, OPT_COUNT))
        print_totals(&p->answers);
    free(p->targets);
    free(p->names);
    free(p->found);
    free(p->why);
    if (status == EXIT_DONE && given(o, OPT_QUIET))
        return p->last == TAMIS_ABSENT ? EXIT_ABSENT : EXIT_DONE;
    return status ? status : named;
}

/* Opens the filters. Then none goes away between its answers. */
static void open_filters(struct probe *p, struct tamis_store *store)
{
    const struct options *o = p->o;
    struct tamis_prepare_options opt = {.size = sizeof(opt),
                                        .n_targets = o->segments.n};
    struct tamis_prepare_report report;
    unsigned tries = 0;
    if (o->segments.n > 0) {
        p->targets = memory_or_exit(calloc(o->segments.n, sizeof(*p->targets)));
        p->names = memory_or_exit(calloc(o->segments.n, sizeof(*p->names)));
    }
    opt.targets = p->targets;
    do {
        for (size_t i = 0; i < o->segments.n; i++)
            tamis_snapshot_find(p->snapshot, o->segments.at[i],
                                strlen(o->segments.at[i]), NULL, 0, 0, &p->targets[i]);
        tamis_snapshot_prepare(p->snapshot, &opt, &report, NULL);
    } while (report.n_failed > 0 && newer_snapshot(store, &p->snapshot, &tries));
}

static int run(int argc, char **argv)
{
    struct probe p = {0};
    struct tamis_pack_info pack;
    struct tamis_store *store;
    char file[64];
    struct options o;
    parse_options(argc, argv, 1, 0, &o);
    check_probe_options(&o);
    if (given(&o, OPT_BIND) && o.segments.n != 1)
        usage_error("--bind goes with one --segment");
    p.o = &o;
    store_snapshot(o.args[0], &store, &p.snapshot);
    open_filters(&p, store);
    p.complete = tamis_snapshot_info(p.snapshot).complete || o.segments.n > 0;
    /* Names packs whose segments are unknown: no line tells that these may have the
     * key. */
    for (size_t i = 0;
         !p.complete && tamis_snapshot_pack_info(p.snapshot, i, &pack) == 0; i++)
        if (pack_is_unlisted(&pack)) {
            pack_file_name(pack.uuid, file);
            complain(0, "%s/%s: %s", o.args[0], file, PACK_UNLISTED);
        }
    int status = probe(&p);
    tamis_snapshot_release(p.snapshot);
    tamis_store_close(store);
    return status;
}

const struct command cmd_probe = {
    .name = "probe",
    .arguments = "STORE KEY... | STORE --keys FILE [--segment SEGMENT]...",
    .summary = "list the segments that may hold a key",
    .about = "Prints KEY<TAB>SEGMENT<TAB>HIT, or another reason to read the segment: "
             "DAMAGED, NO_FILTER, FILE_LOST, BEHIND, MISMATCH, UNREADABLE, "
             "UNKNOWN_SEGMENT. A line KEY<TAB>-<TAB>ABSENT is a proof that no segment "
             "has the key. UNKNOWN_SEGMENT in its place: the list is empty, or may "
             "lack segments: see 'tamis help repair'.\n",
    .options =
        {OPTION(KEYS_FILE), OPTION(SEGMENT, "ask only this one; may be repeated"),
         OPTION(BIND, "... and only if it is bound to this"), OPTION(MIN_WATERMARK),
         OPTION(COUNT),
         OPTION(EXPLAIN, "the answer of every segment, and the reason: its key "
                         "range, or which stage, lane and offset of its filter"),
         OPTION(QUIET,
                "exit 10 if KEY is absent. Else read it: 0 if it may be there, or "
                "the SEGMENT is unknown, which stderr says"),
         OPTION(JSON),
         OPTIONS(KEY_FLAGS, "form of KEYFILE: 'tamis help keys'; --hex: of KEY, too")},
    .examples = "tamis probe store user:42\n"
                "tamis probe store --keys wanted.txt --segment 000012.sst --count\n",
    .run = run,
};

/* tamis plan --apply: shrinks, by folding, filters that have memory to give back, and
 * makes from their segments' lists those that folding cannot give their size or error.
 * Each is an edit of its own, done or not; earlier ones stay. Work that needs keys is
 * listed with its command. */
#include "../talk/endings.h"
#include "inside.h"

/* ---- the action for each filter: what --apply does, and what the table shows. It only
 * compares figures. A choice of PLAN_SHRINK is a hope: a damaged page may leave no room
 * for the fold. ---- */

bool plan_is_larger(const struct store_plan *p, uint64_t n_bytes, size_t i)
{
    uint64_t planned = p->shares[i].plan.file_bytes;
    return n_bytes > planned + (p->is_tight ? 0 : planned / 64);
}

enum plan_action plan_action(const struct store_plan *p, size_t i)
{
    const struct planned *s = &p->segments[i];
    const struct tamis_plan_share *to = &p->shares[i];
    const struct tamis_plan *plan = &to->plan;
    bool is_larger = plan_is_larger(p, s->bytes_now, i);
    if (s->unread != NULL)
        return PLAN_UNREAD;
    if (s->state == TAMIS_SEGMENT_GROWING)
        return PLAN_SEAL;
    if (plan->file_bytes == 0)
        return PLAN_REMOVE;
    /* A fold neither takes a ribbon nor makes one. A filter that is as good as planned
     * stays, whatever its kind. */
    if (s->is_ribbon || plan_is_ribbon(to))
        return is_larger || (s->error_now > to->error && s->error_now > plan->error)
                   ? PLAN_REBUILD
                   : PLAN_KEEP;
    /* Would a rebuild have the same size, and hardly less error? By chance the bits may
     * suggest a few keys too many, and so more error than was planned. */
    if (s->only.n_blocks == plan->n_blocks && s->only.lanes == plan->lanes &&
        tamis_plan_error(plan->lanes, s->only.words, plan->n_blocks, plan->n_keys) <=
            1.01 * plan->error)
        return PLAN_KEEP;
    if (s->error_now > to->error)
        return PLAN_REBUILD;
    if (s->error_folded <= to->error)
        return PLAN_SHRINK;
    return is_larger ? PLAN_REBUILD /* and no factor fits */ : PLAN_KEEP;
}

const char *plan_action_name(enum plan_action action)
{
    static const char *const names[] = {"keep",   "shrink", "rebuild",
                                        "remove", "seal",   "unread"};
    return names[action];
}

/* ---- folds ---- */

struct apply {
    const struct options *o;
    const struct store_plan *plan;
    enum plan_action *actions; /* what each segment still needs */
    struct tamis_store *store;
    struct tamis_snapshot *snapshot;
    int64_t bytes;      /* given back, or below 0: taken */
    uint64_t *now;      /* each segment's size so far */
    bool *tried;        /* has its list been? */
    uint64_t n_unread;  /* lists, so their segments' filters are not as planned */
    uint64_t n_damaged; /* filters that were to be shrunk */
};

/* The edit of one segment. */
struct change {
    const struct apply *apply;
    const struct planned *segment;
    const struct tamis_plan_share *to;
    struct tamis_edit *edit;
    struct tamis_derive_report report;
    bool may_rebuild; /* from its list: then a fold that is too large is not put */
    bool stays;       /* the segment, as it is, and this is no failure */
    bool unread;      /* its list is, and this is the segment's still */
};

static struct change change_of(const struct apply *a, size_t i)
{
    return (struct change){
        .apply = a, .segment = &a->plan->segments[i], .to = &a->plan->shares[i]};
}

static int not_committed(void *change, int err, const struct tamis_diag *diag)
{
    struct change *c = change;
    c->stays = err == TAMIS_ERR_NO_SEGMENT; /* it was dropped meanwhile */
    return c->stays ? EXIT_DONE : replaced_error(err, diag, c->apply->o->args[0]);
}

/* On failure it reports, and the segment is unchanged. */
static int change_segment(struct change *c, int (*work)(void *change))
{
    int status = edit_store(c->apply->store, c->apply->o->args[0], &c->edit, work, c,
                            false, not_committed);
    return c->stays ? EXIT_DONE : status;
}

/* Ends the work so that its edit is aborted. */
static int stay(struct change *c)
{
    c->stays = true;
    return EXIT_USAGE;
}

/* A rebuild that follows a fold would find the fold in the place of the planned filter,
 * and take it for another process's. So the list comes first: its filter has the
 * planned size, and needs no fold. */
static bool may_rebuild(const struct apply *a, size_t i, const struct planned *s)
{
    struct tamis_filter_info list;
    int err = a->tried[i] ? TAMIS_ERR_NO_SEGMENT
                          : its_list_info(a->snapshot, s->index, false, &list, NULL);
    return err ? err != TAMIS_ERR_NO_SEGMENT /* the rebuild tells why */
               : list.hash_bits == 64;
}

/* Drops and puts the segment, if it still has the planned filter. */
static int shrink(void *change)
{
    struct change *c = change;
    const struct planned *s = c->segment;
    struct tamis_snapshot *snapshot = c->apply->snapshot;
    struct tamis_derivation to = {.operation = TAMIS_SHRINK, .error = c->to->error};
    struct tamis_segment_options opt = {.size = sizeof(opt), .replace = 1};
    struct tamis_segment_info info;
    struct tamis_diag diag = {0};
    int err = tamis_snapshot_segment(snapshot, s->index, &info);
    if (err == 0) {
        opt.binding = info.binding;
        opt.binding_bytes = info.binding_bytes;
        opt.rank = info.rank;
        opt.watermark = info.watermark;
        err = tamis_edit_derive(c->edit, info.name, info.name_bytes, snapshot,
                                &(size_t){s->index}, 1, &to, &opt, &c->report, &diag);
    }
    const struct store_plan *p = c->apply->plan;
    bool waits_for_list = c->may_rebuild && plan_is_larger(p, c->report.file_bytes,
                                                           (size_t)(s - p->segments));
    /* Keep the filter: a fold would turn a damaged page into ones for good. A page of
     * ones may leave no room for a fold. */
    if (err == TAMIS_ERR_UNFIT || err == TAMIS_ERR_NO_SEGMENT ||
        (err == 0 && (c->report.file_bytes >= s->bytes_now || c->report.n_damaged > 0 ||
                      waits_for_list)))
        return stay(c);
    return err ? complain_error(err, &diag, c->apply->o->args[0],
                                err == TAMIS_ERR_MISMATCH ? "" : NULL)
               : EXIT_DONE;
}

static int apply_shrink(struct apply *a, size_t i)
{
    const struct planned *s = &a->plan->segments[i];
    struct change c = change_of(a, i);
    c.may_rebuild = may_rebuild(a, i, s);
    int status = change_segment(&c, shrink);
    uint64_t n_bytes = c.stays ? s->bytes_now : c.report.file_bytes;
    if (status != EXIT_DONE)
        return status;
    a->actions[i] = plan_is_larger(a->plan, n_bytes, i) ? PLAN_REBUILD : PLAN_KEEP;
    if (c.report.n_damaged > 0) {
        a->actions[i] = PLAN_KEEP;
        printf("damaged  %s: see 'tamis verify'; build it anew from its keys\n",
               s->name);
        a->n_damaged++;
        return EXIT_DONE;
    }
    if (c.stays)
        return EXIT_DONE;
    a->bytes += (int64_t)(s->bytes_now - n_bytes);
    a->now[i] = n_bytes;
    printf("shrunk   %s: %s to %s, error %s\n", s->name, SIZE(s->bytes_now),
           SIZE(n_bytes), PERCENT(c.report.error));
    return EXIT_DONE;
}

static int apply_shrinks(struct apply *a)
{
    int status = EXIT_DONE;
    for (size_t i = 0; i < a->plan->n && status == EXIT_DONE; i++)
        if (a->actions[i] == PLAN_SHRINK) {
            status = apply_shrink(a, i);
            endings_release();
        }
    return status;
}

/* ---- from the segment's list ---- */

/* Has another process replaced or dropped it since? Then its list went with it. */
static enum fate fate_of(const struct apply *a, const struct planned *s)
{
    struct tamis_segment_info info;
    return tamis_snapshot_segment(a->snapshot, s->index, &info) != 0
               ? SEGMENT_STAYS
               : segment_fate(a->store, &info);
}

/* A list that is missing, cut or damaged does not end the work: then the filter is made
 * from keys. */
static int rebuild(void *change)
{
    struct change *c = change;
    const struct apply *a = c->apply;
    const struct tamis_segment_options opt = {
        .size = sizeof(opt),
        .n_threads = a->o->jobs,
        .kind = plan_is_ribbon(c->to) ? TAMIS_RIBBON : TAMIS_BLOOM};
    struct tamis_diag diag = {0};
    int err = tamis_edit_from_list(c->edit, a->snapshot, c->segment->index,
                                   c->to->error, &opt, &diag);
    if (err == 0)
        return EXIT_DONE;
    if (err == TAMIS_ERR_NO_SEGMENT || err == TAMIS_ERR_UNFIT)
        return stay(c); /* no list, or a cut one */
    if (err != ENOENT && err != TAMIS_ERR_NOT_TAMIS && err != TAMIS_ERR_DAMAGED &&
        err != TAMIS_ERR_MISMATCH && !is_wrong_type(err))
        return complain_error(err, &diag, a->o->args[0], NULL);
    enum fate fate = fate_of(a, c->segment);
    c->unread = fate == SEGMENT_STAYS;
    if (fate != SEGMENT_DROPPED)
        printf("unread   %s\n", diag.what); /* says whose list */
    return stay(c);
}

static int apply_rebuild(struct apply *a, size_t i)
{
    const struct planned *s = &a->plan->segments[i];
    struct tamis_segment_info old, now = {0};
    struct tamis_snapshot *fresh;
    struct change c = change_of(a, i);
    size_t index;
    int status = change_segment(&c, rebuild);
    if (c.unread) {
        a->n_unread++;
        if (plan_action(a->plan, i) == PLAN_SHRINK)
            a->actions[i] = PLAN_SHRINK; /* the fold waited for the list */
    }
    if (status != EXIT_DONE || c.stays)
        return status;
    if (tamis_snapshot_segment(a->snapshot, s->index, &old) == 0) {
        segment_now(a->store, &old, &fresh, &index);
        tamis_snapshot_segment(fresh, index, &now);
        tamis_snapshot_release(fresh);
    }
    a->actions[i] = PLAN_KEEP;
    a->bytes += (int64_t)a->now[i] - (int64_t)now.file_bytes;
    printf("rebuilt  %s from its list: %s to %s, error %s\n", s->name, SIZE(a->now[i]),
           SIZE(now.file_bytes), PERCENT(now.error));
    return EXIT_DONE;
}

static int64_t growth(const struct apply *a, size_t i)
{
    return (int64_t)a->plan->shares[i].plan.file_bytes - (int64_t)a->now[i];
}

static bool has_room(const struct apply *a, size_t i)
{
    return growth(a, i) <= 0 || !given(a->o, OPT_BYTES) ||
           (int64_t)a->plan->bytes_now - a->bytes + growth(a, i) <=
               (int64_t)a->o->n_bytes;
}

/* Rebuilds filters that grow, or those that do not: they come first, for they make
 * room. */
static int apply_rebuilds(struct apply *a, bool growing)
{
    int status = EXIT_DONE;
    for (size_t i = 0; i < a->plan->n && status == EXIT_DONE; i++) {
        if (a->actions[i] != PLAN_REBUILD || a->tried[i] ||
            (growth(a, i) > 0) != growing || !has_room(a, i))
            continue;
        status = apply_rebuild(a, i);
        endings_release();
        a->tried[i] = status == EXIT_DONE;
    }
    return status;
}

/* ---- what is left: the command that does it, to be copied into a shell ---- */

static bool has_list(const struct apply *a, const struct planned *s,
                     struct tamis_filter_info *list)
{
    return its_list_info(a->snapshot, s->index, false, list, NULL) !=
           TAMIS_ERR_NO_SEGMENT;
}

/* Prints options for the rank, the binding, and of a filter the watermark and the list,
 * which a new segment would lack. */
static void print_kept(const struct apply *a, const struct planned *s, bool has_filter)
{
    struct tamis_segment_info info;
    struct tamis_filter_info list;
    if (tamis_snapshot_segment(a->snapshot, s->index, &info) == 0) {
        if (info.rank > 0)
            printf(" --rank %lu", (unsigned long)info.rank);
        if (info.binding_bytes > 0)
            printf(" --bind %s", HEX(info.binding, info.binding_bytes));
        if (has_filter && info.watermark > 0)
            printf(" --watermark %llu", LLU(info.watermark));
    }
    if (has_filter && has_list(a, s, &list)) {
        printf(" --list");
        if (list.hash_bits > 0 && list.hash_bits < 64)
            printf("=%u", list.hash_bits);
    }
}

/* Prints the segment's name and `rest`. A name that looks like an option comes last,
 * after `--`. */
static void print_operands(const struct planned *s, bool last, const char *rest)
{
    bool dashed = s->name[0] == '-';
    if (dashed == last)
        printf("%s %s%s", dashed ? " --" : "", s->word, rest);
}

/* Prints a command for the segment, up to its options. print_operands() ends it. `note`
 * follows the segment's name in its title. */
static void print_command(const struct apply *a, const struct planned *s,
                          const char *does, const char *note, const char *command,
                          const char *rest)
{
    char *store = path_word(a->o->args[0]);
    printf("%-8s %s%s: tamis %s %s", does, s->name, note, command, store);
    print_operands(s, false, rest);
    free(store);
}

static void print_rebuild(const struct apply *a, size_t i)
{
    const struct planned *s = &a->plan->segments[i];
    const struct tamis_plan_share *to = &a->plan->shares[i];
    struct tamis_filter_info list;
    bool from_list = !a->tried[i] && has_list(a, s, &list) && list.hash_bits == 64;
    const char *keys = from_list ? "" : " KEYFILE";
    print_command(a, s, "rebuild",
                  from_list && !has_room(a, i) ? ", when there is room" : "", "build",
                  keys);
    printf("%s --fpr %.4g%s", from_list ? " --from-list" : "", to->error,
           plan_is_ribbon(to)          ? " --kind ribbon"
           : from_list && s->is_ribbon ? " --kind bloom" /* else it stays a ribbon */
                                       : "");
    if (!from_list) {
        printf(" --replaces %s", s->word);
        print_kept(a, s, true);
    }
    print_operands(s, true, keys);
    putchar('\n');
}

static void print_step(const struct apply *a, size_t i)
{
    const struct planned *s = &a->plan->segments[i];
    enum plan_action action = a->actions[i];
    struct tamis_filter_info list;
    if (action == PLAN_REBUILD)
        print_rebuild(a, i);
    if (action == PLAN_REMOVE) {
        print_command(a, s, "remove",
                      has_list(a, s, &list) ? ", and its list goes, too" : "", "build",
                      "");
        printf(" --bare --replaces %s", s->word);
        print_kept(a, s, false);
        print_operands(s, true, "");
        putchar('\n');
    }
    if (action == PLAN_UNREAD)
        printf("unread   %s: %s\n", s->name, s->unread);
    if (action == PLAN_SEAL) {
        print_command(a, s, "seal", ", then --apply again", "seal", "");
        print_operands(s, true, "");
        putchar('\n');
    }
}

struct left {
    size_t n;         /* segments that are not as planned yet */
    size_t n_waiting; /* of these: they have a command */
    size_t n_growing; /* of these */
    /* Bytes of segments that other processes have dropped meanwhile, and that need
     * nothing any more. */
    uint64_t dropped_bytes;
};

static struct left print_left(const struct apply *a)
{
    struct left left = {.n = 0};
    for (size_t i = 0; i < a->plan->n; i++) {
        enum plan_action action = a->actions[i];
        if (fate_of(a, &a->plan->segments[i]) == SEGMENT_DROPPED) {
            left.dropped_bytes += a->now[i];
            continue;
        }
        print_step(a, i);
        left.n += action != PLAN_KEEP;
        left.n_waiting += action != PLAN_KEEP && action != PLAN_UNREAD;
        left.n_growing += action == PLAN_SEAL;
    }
    return left;
}

/* The others are done. */
static int damage_status(const struct apply *a)
{
    if (a->n_damaged > 0)
        return complain(EXIT_DAMAGE,
                        "%s: %s damaged, and not shrunk: 'tamis verify' says what "
                        "mends them",
                        a->o->args[0], COUNTED(a->n_damaged, "filter"));
    if (a->n_unread > 0)
        return complain(EXIT_DAMAGE,
                        "%s: %s with a list that cannot be read, so not as planned: "
                        "build them anew from their keys",
                        a->o->args[0], COUNTED(a->n_unread, "segment"));
    return EXIT_DONE;
}

int plan_apply(struct tamis_store *store, struct tamis_snapshot *snapshot,
               const struct options *o, const struct store_plan *p)
{
    struct apply a = {.o = o, .plan = p, .store = store, .snapshot = snapshot};
    a.actions = memory_or_exit(calloc(p->n + 1, sizeof(*a.actions)));
    a.now = memory_or_exit(calloc(p->n + 1, sizeof(*a.now)));
    a.tried = memory_or_exit(calloc(p->n + 1, sizeof(*a.tried)));
    for (size_t i = 0; i < p->n; i++) {
        a.actions[i] = plan_action(p, i);
        a.now[i] = p->segments[i].bytes_now;
    }
    int status = apply_shrinks(&a);
    if (status == EXIT_DONE)
        status = apply_rebuilds(&a, false);
    if (status == EXIT_DONE) /* those whose lists were of no use */
        status = apply_shrinks(&a);
    if (status == EXIT_DONE)
        status = apply_rebuilds(&a, true);
    struct left left = print_left(&a);
    free(a.actions);
    free(a.now);
    free(a.tried);
    uint64_t n_bytes = p->bytes_now - (uint64_t)a.bytes - left.dropped_bytes;
    if (status == EXIT_DONE)
        work_is_done();
    printf("%s %s; %llu bytes of filters now, %llu planned\n",
           SIZE(a.bytes < 0 ? -a.bytes : a.bytes), a.bytes < 0 ? "taken" : "given back",
           LLU(n_bytes), LLU(p->summary.best.file_bytes));
    if (status == EXIT_DONE) {
        /* Status 0 says that --apply did its own part; this line says what is missing.
         */
        if (left.n_waiting > 0)
            printf("the plan is not reached yet: %s left to the commands above",
                   COUNTED(left.n_waiting, "segment"));
        if (left.n_growing > 0)
            printf("; %zu growing, and only sealed filters can be shrunk or rebuilt",
                   left.n_growing);
        fputs(left.n_waiting > 0 ? "\n" : "", stdout);
        status = damage_status(&a);
    }
    if (status != EXIT_DONE || left.n > 0 || !given(o, OPT_BYTES) ||
        n_bytes <= o->n_bytes)
        return status;
    /* Everything is done. A ribbon may be larger than planned by bad luck. */
    return complain(EXIT_USAGE,
                    "%s: its filters take %llu bytes, %llu more than --bytes: apply a "
                    "plan of fewer --bytes",
                    o->args[0], LLU(n_bytes), LLU((n_bytes - o->n_bytes)));
}

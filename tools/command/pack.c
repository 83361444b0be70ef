/* tamis pack, unpack: many filters side by side in one file, and back. */
#include "command.h"

static bool is_named(const struct segments_edit *e)
{
    return e->o->n_args > 1;
}

/* As the library wants them; malloc'd. */
static uint32_t *numbers_of(const struct segments_edit *e)
{
    uint32_t *numbers = memory_or_exit(calloc(e->n + 1, sizeof(*numbers)));
    for (size_t i = 0; i < e->n; i++)
        numbers[i] = (uint32_t)e->segments[i];
    return numbers;
}

/* ---- the report of pack: why segments were left ---- */

/* By reason: its count in JSON and in text, and the words about the first segment. */
static const struct {
    const char *field, *what, *why;
} reasons[TAMIS_LEFT_REASONS] = {
    [TAMIS_LEFT_PACKED] = {"packed_before", "packed before",
                           "is in a pack already, and --repack takes it"},
    [TAMIS_LEFT_BARE] = {"bare", "bare", "has no filter"},
    [TAMIS_LEFT_GROWING] = {"growing", "growing",
                            "still grows, and only sealed filters are packed"},
    [TAMIS_LEFT_STAGES] = {"several_stages", "of several stages",
                           "has several stages, and only filters of one stage are "
                           "packed"},
    [TAMIS_LEFT_UNREADABLE] = {"unreadable", "damaged or unreadable", "was left"},
    [TAMIS_LEFT_REPLACED] = {"replaced", "replaced or dropped meanwhile", "was left"},
    [TAMIS_LEFT_LARGER] = {"larger", "larger in a pack",
                           "would be larger in a pack: pack it with more of its size"},
    [TAMIS_LEFT_NEWER] = {"newer", "of a newer version",
                          "has a feature of a newer version, which a pack would lose"},
    [TAMIS_LEFT_RIBBON] = {"ribbons", "of kind ribbon",
                           "has a ribbon, and only Bloom filters are packed"},
};

static void print_json(const struct tamis_pack_report *r)
{
    json_t *left = json_of(NULL), *o = json_of("packed", json_count(r->n_packed),
                                               "repacked", json_count(r->n_repacked));
    if (r->n_packed > 0)
        json_add(o, "bands", json_count(r->n_bands), "rows_bytes",
                 json_count(r->rows_bytes), "file_bytes", json_count(r->file_bytes),
                 "free_bytes", json_count(r->free_bytes));
    for (int why = TAMIS_LEFT_PACKED; why < TAMIS_LEFT_REASONS; why++)
        json_put(left, reasons[why].field, json_count(r->n_left[why]));
    json_put(o, "left", left);
    json_print(o);
}

/* "2 growing, 1 bare": what was left. */
static void left_text(const struct tamis_pack_report *r, char *text, size_t room)
{
    size_t at = 0;
    text[0] = '\0';
    for (int why = TAMIS_LEFT_PACKED; why < TAMIS_LEFT_REASONS; why++)
        if (r->n_left[why] > 0)
            at += (size_t)snprintf(text + at, room - at, "%s%llu %s", at ? ", " : "",
                                   LLU(r->n_left[why]), reasons[why].what);
}

static void print_line(const struct options *o, const struct tamis_pack_report *r)
{
    char left[200];
    bool dry = given(o, OPT_DRY_RUN);
    left_text(r, left, sizeof(left));
    if (r->n_packed == 0)
        progress_close("nothing to pack%s%s", left[0] ? ": " : "", left);
    else
        progress_close("%s %s, %llu of them from other packs: %s, %s%s%s%s%s",
                       dry ? "would pack" : "packed", COUNTED(r->n_packed, "segment"),
                       LLU(r->n_repacked), SIZE(r->file_bytes),
                       COUNTED(r->n_bands, "band"), dry ? ", free: " : "",
                       dry ? SIZE(r->free_bytes) : "", left[0] ? "; left: " : "", left);
}

/* Reports that segments which were named were left, and why the first one was. Returns
 * 6 if all of them were replaced meanwhile, else 2. */
static int packed_left(const struct tamis_pack_report *r,
                       const struct tamis_snapshot *snapshot, const char *store)
{
    struct tamis_segment_info s;
    char left[200];
    left_text(r, left, sizeof(left));
    tamis_snapshot_segment(snapshot, r->first_left, &s);
    const char *name = NAME(s.name, s.name_bytes);
    if (r->why_left == TAMIS_LEFT_REPLACED)
        return complain(EXIT_BUSY,
                        "%s: segment '%s' was replaced or dropped meanwhile: run it "
                        "again",
                        store, name);
    return complain(EXIT_USAGE, "%s: of the segments named, %s: '%s' %s", store, left,
                    name, reasons[r->why_left].why);
}

/* ---- pack ---- */

/* Is this segment in it? */
static bool is_placed(const struct segments_edit *e, struct tamis_snapshot *now,
                      size_t i)
{
    const struct tamis_pack_report *r = e->made;
    struct tamis_segment_info s;
    struct tamis_target t = {0};
    struct tamis_pack_place place;
    if (tamis_snapshot_segment(e->snapshot, i, &s) == 0)
        tamis_snapshot_find(now, s.name, s.name_bytes, NULL, 0, 0, &t);
    return t.ordinal != 0 && is_column(now, t.ordinal - 1, &place) &&
           memcmp(place.uuid, r->uuid, sizeof(place.uuid)) == 0;
}

/* Another process may have replaced or dropped segments before the commit. These were
 * not packed, even if the file has them. Reports the first one that was named. */
static void count_placed(struct segments_edit *e)
{
    struct tamis_pack_report *r = e->made;
    struct tamis_snapshot *now = NULL;
    if (r->n_packed == 0 || tamis_snapshot_current(e->store, &now, NULL) != 0)
        return;
    struct tamis_pack_info pack;
    uint64_t n = 0; /* segments of the pack that was written */
    for (size_t i = 0; tamis_snapshot_pack_info(now, i, &pack) == 0; i++)
        if (memcmp(pack.uuid, r->uuid, sizeof(pack.uuid)) == 0)
            n = pack.n_listed + pack.n_overridden;
    if (n < r->n_packed) {
        r->n_left[TAMIS_LEFT_REPLACED] += r->n_packed - n;
        r->n_packed = n;
        r->n_repacked = 0;
        for (size_t i = 0; tamis_snapshot_next(e->snapshot, &i); i++)
            r->n_repacked += is_column(e->snapshot, i, NULL) && is_placed(e, now, i);
        for (size_t k = 0; r->why_left == TAMIS_LEFT_NONE && is_named(e) && k < e->n;
             k++)
            if (!is_placed(e, now, e->segments[k])) {
                r->first_left = (uint32_t)e->segments[k];
                r->why_left = TAMIS_LEFT_REPLACED;
            }
    }
    tamis_snapshot_release(now);
}

static int write_pack(void *edit)
{
    const struct segments_edit *e = edit;
    const struct options *o = e->o;
    uint32_t *numbers = is_named(e) ? numbers_of(e) : NULL; /* NULL: all */
    struct tamis_diag diag = {0};
    struct tamis_pack_options opt = {
        .size = sizeof(opt),
        .dry_run = given(o, OPT_DRY_RUN),
        .n_threads = o->jobs,
        .repack = given(o, OPT_AUTO)     ? TAMIS_REPACK_AUTO
                  : given(o, OPT_REPACK) ? TAMIS_REPACK_ALL
                                         : TAMIS_REPACK_NONE,
    };
    int err =
        tamis_edit_pack(e->edit, e->snapshot, numbers, e->n, &opt, e->made, &diag);
    free(numbers);
    return err ? complain_error(err, &diag, o->args[0], NULL) : EXIT_DONE;
}

/* Segments that were named and are left are half the work. */
static int report_pack(struct segments_edit *e)
{
    const struct tamis_pack_report *r = e->made;
    work_is_done();
    if (!given(e->o, OPT_DRY_RUN))
        count_placed(e);
    bool fails = r->n_left[TAMIS_LEFT_UNREADABLE] > 0;
    for (int why = TAMIS_LEFT_PACKED; why < TAMIS_LEFT_REASONS; why++)
        fails |= is_named(e) && r->n_left[why] > 0;
    if (given(e->o, OPT_JSON))
        print_json(r);
    else if (!given(e->o, OPT_QUIET) && (r->n_packed > 0 || !fails))
        print_line(e->o, r);
    if (!output_works())
        return EXIT_IO;
    if (r->n_left[TAMIS_LEFT_UNREADABLE] > 0)
        return complain(EXIT_DAMAGE,
                        "%s: %s damaged, or in missing or damaged packs: 'tamis "
                        "verify' says which, and what works",
                        e->o->args[0],
                        COUNTED(r->n_left[TAMIS_LEFT_UNREADABLE], "filter"));
    return fails ? packed_left(r, e->snapshot, e->o->args[0]) : EXIT_DONE;
}

static int pack(int argc, char **argv)
{
    struct tamis_pack_report report;
    struct options o;
    struct segments_edit e = {
        .o = &o, .made = &report, .work = write_pack, .print = report_pack};
    parse_options(argc, argv, 1, 0, &o);
    if (given(&o, OPT_AUTO) && (o.n_args > 1 || given(&o, OPT_REPACK)))
        usage_error("--auto chooses segments itself: leave out %s",
                    given(&o, OPT_REPACK) ? "--repack" : "their names");
    progress_start("pack", 0);
    return edit_segments(&e, o.args + 1, o.n_args - 1);
}

const struct command cmd_pack = {
    .name = "pack",
    .arguments = "STORE [SEGMENT...] [--auto]",
    .summary = "put many filters side by side in one file",
    .about =
        "Packs sealed filters, all or the named ones: then a key is asked of all of "
        "them in a few cache lines. Filters that grow, or have several stages, are "
        "left as they are; so are those that would be much larger there: a row has a "
        "byte even for one filter, so pack eight or more of like size. The filters' "
        "own files go; engines that mostly ask one segment at a time should not pack.\n"
        "\n"
        "With --auto it packs what is loose, and rewrites packs that are half dead or "
        "small: run it after each change, or now and then. Until the new pack is "
        "listed, the old ones take room beside it: --dry-run says how large it is. "
        "The catalog takes some pages more.\n",
    .options = {OPTION(AUTO), OPTION(REPACK),
                OPTION(DRY_RUN, "say what it would do, and change nothing"),
                OPTION(JOBS, "use N threads, 8 at most; default: one a processor"),
                QUIET_OR_JSON},
    .examples = "tamis pack store 000007.sst 000009.sst\n"
                "tamis pack store --auto\n",
    .run = pack,
};

/* ---- unpack ---- */

/* Segments in packs that are lost, damaged or unreadable. */
struct lost {
    size_t n;
    int error;
};

/* Picks the segments that packs answer for, among the named ones or all. Counts the
 * segments of packs that cannot answer. */
static int pick_packed(struct segments_edit *e)
{
    struct lost *lost = e->made;
    struct tamis_segment_info info;
    size_t n = e->n;
    e->n = 0;
    for (size_t k = 0; k < n; k++) {
        size_t i = e->segments[k];
        int err = tamis_snapshot_pack(e->snapshot, i, NULL, NULL, NULL);
        if (err == 0) {
            e->segments[e->n++] = i;
        } else if (is_in_lost_pack(e->snapshot, i)) { /* damage ranks first */
            if (lost->n++ == 0 || status_unread(err) == EXIT_DAMAGE)
                lost->error = err;
        } else if (is_named(e)) {
            tamis_snapshot_segment(e->snapshot, i, &info);
            return complain(EXIT_USAGE,
                            "%s: segment '%s' is in no pack: 'tamis ls' says which are",
                            e->o->args[0], NAME(info.name, info.name_bytes));
        }
    }
    return EXIT_DONE;
}

/* Failed rows are of some segments; the table of columns has what a record would. */
static const char *unpack_advice(const struct segments_edit *e)
{
    struct tamis_verify rows;
    for (size_t i = 0; i < e->n; i++)
        if (tamis_snapshot_pack(e->snapshot, e->segments[i], NULL, NULL, &rows) == 0 &&
            rows.n_damaged > 0)
            return "others can be unpacked by their names; 'tamis pack --repack' saves "
                   "all that are good; build the rest anew from their keys";
    return "put the pack's file back";
}

static int write_files(void *edit)
{
    struct segments_edit *e = edit;
    struct tamis_diag diag = {0};
    int err, status = pick_packed(e);
    if (status != EXIT_DONE)
        return status;
    uint32_t *numbers = numbers_of(e);
    err = tamis_edit_unpack(e->edit, e->snapshot, numbers, e->n, &diag);
    free(numbers);
    return err ? complain_error(err, &diag, e->o->args[0],
                                err == TAMIS_ERR_DAMAGED ? unpack_advice(e) : NULL)
               : EXIT_DONE;
}

/* The files of the segments, as they are now. */
static uint64_t unpacked_bytes(const struct segments_edit *e)
{
    struct tamis_snapshot *now = NULL;
    struct tamis_segment_info s;
    struct tamis_target t;
    uint64_t sum = 0;
    if (tamis_snapshot_current(e->store, &now, NULL) != 0)
        return 0;
    for (size_t i = 0; i < e->n; i++)
        if (tamis_snapshot_segment(e->snapshot, e->segments[i], &s) == 0 &&
            tamis_snapshot_find(now, s.name, s.name_bytes, NULL, 0, 0, &t) == 0 &&
            tamis_snapshot_segment(now, t.ordinal - 1, &s) == 0)
            sum += s.file_bytes;
    tamis_snapshot_release(now);
    return sum;
}

static int report_unpack(struct segments_edit *e)
{
    const struct lost *lost = e->made;
    uint64_t n_bytes = unpacked_bytes(e);
    work_is_done();
    if (given(e->o, OPT_JSON)) {
        json_print(
            json_of("unpacked", json_count(e->n), "file_bytes", json_count(n_bytes)));
    } else if (!given(e->o, OPT_QUIET)) {
        if (e->n == 0 && lost->n == 0)
            progress_close("nothing to unpack");
        else if (e->n > 0)
            progress_close("unpacked %s: %s", COUNTED(e->n, "segment"), SIZE(n_bytes));
    }
    if (!output_works())
        return EXIT_IO;
    if (lost->n == 0)
        return EXIT_DONE;
    if (status_unread(lost->error) != EXIT_DAMAGE)
        return complain_error(lost->error, NULL, e->o->args[0], NULL);
    return complain(EXIT_DAMAGE,
                    "%s: %s in missing or damaged packs: 'tamis verify' says which",
                    e->o->args[0], COUNTED(lost->n, "segment"));
}

static int unpack(int argc, char **argv)
{
    struct lost lost = {.n = 0};
    struct options o;
    struct segments_edit e = {
        .o = &o, .made = &lost, .work = write_files, .print = report_unpack};
    parse_options(argc, argv, 1, 0, &o);
    progress_start("unpack", 0);
    return edit_segments(&e, o.args + 1, o.n_args - 1);
}

const struct command cmd_unpack = {
    .name = "unpack",
    .arguments = "STORE [SEGMENT...]",
    .summary = "give packed segments files of their own",
    .about =
        "Writes the columns of packs, all or those of the named segments, as files "
        "again. Answers stay the same.\n",
    .options = {QUIET_OR_JSON},
    .examples = "tamis unpack store 000007.sst\n",
    .run = unpack,
};

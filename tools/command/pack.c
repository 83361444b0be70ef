/* tamis pack, unpack: many filters side by side in one file, and back. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../input/input.h"
#include "../open/open.h"
#include "../output/output.h"
#include "../talk/screen.h"
#include "../talk/talk.h"
#include "command.h"
#include "tamis.h"

struct packing {
    const struct options *o;
    struct tamis_store *store;
    struct tamis_snapshot *snapshot;
    struct tamis_edit *edit;
    uint32_t *segments; /* NULL: all */
    size_t n;
    size_t n_lost; /* unpack: in packs that are lost, damaged or unreadable */
    int lost_error;
    struct tamis_pack_report report;
};

/* The named segments, as the library wants their numbers. */
static int pick(struct packing *p)
{
    size_t *picked;
    int status = pick_segments(p->snapshot, p->o->args[0], p->o->args + 1,
                               p->o->n_args - 1, &picked, &p->n);

    if (status != EXIT_DONE)
        return status;
    p->segments = memory_or_exit(calloc(p->n + 1, sizeof(*p->segments)));
    for (size_t i = 0; i < p->n; i++)
        p->segments[i] = (uint32_t)picked[i];
    free(picked);
    return EXIT_DONE;
}

/* Does `work` in an edit, and commits it unless it is `dry`. */
static int edit(struct packing *p, int (*work)(void *packing), bool dry)
{
    const char *path = p->o->args[0];
    struct tamis_diag diag = {0};
    int err = tamis_edit_begin(p->store, NULL, &p->edit, &diag), status;

    if (err != 0)
        return complain_error(err, &diag, path, NULL);
    status = edit_work(p->edit, work, p, dry);
    if (status != EXIT_DONE || dry)
        return status;
    err = edit_commit(p->edit, &diag);
    return err ? replaced_error(err, &diag, path) : EXIT_DONE;
}

static int run_with(struct options *o, int (*work)(void *packing),
                    int (*report)(struct packing *p))
{
    struct packing p = {.o = o};
    int status = store_snapshot(o->args[0], &p.store, &p.snapshot);

    if (status != EXIT_DONE)
        return status;
    if (o->n_args > 1)
        status = pick(&p);
    if (status == EXIT_DONE)
        status = edit(&p, work, given(o, OPT_DRY_RUN));
    if (status == EXIT_DONE)
        status = report(&p);
    free(p.segments);
    tamis_snapshot_release(p.snapshot);
    tamis_store_close(p.store);
    return status;
}

/* ---- pack ---- */

/* Is the segment, of a newer snapshot, in the pack that was written? */
static bool is_placed(const struct packing *p, struct tamis_snapshot *now, size_t i)
{
    struct tamis_pack_place place;

    return tamis_snapshot_pack(now, i, NULL, &place) == 0 &&
           memcmp(place.uuid, p->report.uuid, sizeof(place.uuid)) == 0;
}

/* The number in another snapshot of a segment of this one; SIZE_MAX: it has none. */
static size_t same_in(const struct tamis_snapshot *to,
                      const struct tamis_snapshot *from, size_t i)
{
    struct tamis_segment_info s;
    struct tamis_target t = {0};

    if (tamis_snapshot_segment(from, i, &s) == 0)
        tamis_snapshot_find(to, s.name, s.name_bytes, NULL, 0, 0, &t);
    return t.slot != 0 ? t.slot - 1 : SIZE_MAX;
}

/* The first named segment that was replaced after it was packed. */
static void note_replaced(struct packing *p, struct tamis_snapshot *now)
{
    struct tamis_pack_report *r = &p->report;

    for (size_t k = 0; r->why_left == TAMIS_LEFT_NONE && k < p->n; k++)
        if (!is_placed(p, now, same_in(now, p->snapshot, p->segments[k]))) {
            r->first_left = p->segments[k];
            r->why_left = TAMIS_LEFT_REPLACED;
        }
}

/* Another process may have replaced or dropped segments before the commit: these were
 * not packed, whatever was in the file. */
static void count_placed(struct packing *p)
{
    struct tamis_pack_report *r = &p->report;
    struct tamis_snapshot *now = NULL;
    uint64_t n = 0, n_repacked = 0;

    if (r->n_packed == 0 || tamis_snapshot_current(p->store, &now, NULL) != 0)
        return;
    for (size_t i = 0; i < tamis_snapshot_n_segments(now); i++) {
        size_t before = same_in(p->snapshot, now, i);

        if (!is_placed(p, now, i))
            continue;
        n++;
        n_repacked += tamis_snapshot_pack(p->snapshot, before, NULL, NULL) == 0;
    }
    if (n < r->n_packed) {
        r->n_replaced += r->n_packed - n;
        r->n_packed = n;
        r->n_repacked = n_repacked < r->n_repacked ? n_repacked : r->n_repacked;
        note_replaced(p, now);
    }
    tamis_snapshot_release(now);
}

static int write_pack(void *packing)
{
    struct packing *p = packing;
    const struct options *o = p->o;
    struct tamis_diag diag = {0};
    struct tamis_pack_options opt = {
        .size = sizeof(opt),
        .dry_run = given(o, OPT_DRY_RUN),
        .n_threads = o->jobs,
        .repack = given(o, OPT_AUTO)     ? TAMIS_REPACK_AUTO
                  : given(o, OPT_REPACK) ? TAMIS_REPACK_ALL
                                         : TAMIS_REPACK_NONE,
    };
    int err = tamis_edit_pack(p->edit, p->snapshot, p->segments, p->n, &opt, &p->report,
                              &diag);

    return err ? complain_error(err, &diag, o->args[0], NULL) : EXIT_DONE;
}

/* Those of the considered segments whose pack is lost. */
static size_t count_lost(const struct packing *p)
{
    bool named = p->segments != NULL;
    size_t n = named ? p->n : tamis_snapshot_n_segments(p->snapshot), n_lost = 0;

    for (size_t k = 0; k < n; k++)
        n_lost += is_in_lost_pack(p->snapshot, named ? p->segments[k] : k);
    return n_lost;
}

/* Segments that were named and are left are half the work. */
static int report_pack(struct packing *p)
{
    const struct tamis_pack_report *r = &p->report;
    bool fails;

    work_is_done();
    if (!given(p->o, OPT_DRY_RUN))
        count_placed(p);
    fails = r->n_unreadable > 0 || (p->segments != NULL && packed_n_left(r) > 0);
    if (given(p->o, OPT_JSON) || r->n_packed > 0 || !fails)
        packed_print(p->o, r);
    if (!output_works())
        return EXIT_IO;
    if (r->n_unreadable > 0)
        return packed_damaged(r, count_lost(p), p->o->args[0]);
    return fails ? packed_left(r, p->snapshot, p->o->args[0]) : EXIT_DONE;
}

static int pack(int argc, char **argv)
{
    struct options o;

    parse_options(argc, argv, 1, 0, &o);
    if (given(&o, OPT_AUTO) && (o.n_args > 1 || given(&o, OPT_REPACK)))
        usage_error("--auto chooses segments itself: leave out %s",
                    given(&o, OPT_REPACK) ? "--repack" : "their names");
    progress_start("pack", 0);
    return run_with(&o, write_pack, report_pack);
}

const struct command cmd_pack = {
    .name = "pack",
    .arguments = "STORE [SEGMENT...] [--auto]",
    .summary = "put many filters side by side in one file",
    .about =
        "Packs sealed filters, all or the named ones: then a key is asked of all of "
        "them in a few cache lines. Filters that grow, or have several stages, are "
        "left as they are; so are those that would be more than twice as large there: "
        "a row has a byte even for one filter, so pack eight or more of like size. The "
        "filters' own files go; engines that mostly ask one segment at a time should "
        "not pack.\n"
        "\n"
        "With --auto it packs what is loose, and rewrites packs that are half dead or "
        "small: run it after each change, or now and then. Until the new pack is "
        "listed, the old ones take room beside it: --dry-run says how large it is. The "
        "catalog takes some pages more.\n",
    .options = {OPTION(AUTO, NULL),
                OPTION(REPACK, NULL),
                OPTION(DRY_RUN, NULL),
                OPTION(JOBS, "use N threads, 8 at most; default: one a processor"),
                {WITH(OPT_QUIET) | WITH(OPT_JSON),
                 "print no closing line, or JSON: 'tamis help json'", NULL}},
    .examples = "tamis pack store 000007.sst 000009.sst\n"
                "tamis pack store --auto\n",
    .run = pack,
};

/* ---- unpack ---- */

static int not_packed(const struct packing *p, size_t i)
{
    struct tamis_segment_info info;
    char *name;

    tamis_snapshot_segment(p->snapshot, i, &info);
    name = escape(info.name, info.name_bytes);
    complain(0, "%s: segment '%s' is in no pack: 'tamis ls' says which are",
             p->o->args[0], name);
    free(name);
    return EXIT_USAGE;
}

/* Damage ranks before other errors. */
static void note_lost(struct packing *p, size_t i)
{
    struct tamis_filter *none;
    int err = tamis_snapshot_filter(p->snapshot, i, &none, NULL);

    if (p->n_lost++ == 0 || status_unread(err) == EXIT_DAMAGE)
        p->lost_error = err;
}

/* Of the named segments, or of all, those that packs answer for; counts those of packs
 * that cannot. */
static int pick_packed(struct packing *p)
{
    bool named = p->segments != NULL;
    size_t n = named ? p->n : tamis_snapshot_n_segments(p->snapshot);

    if (!named)
        p->segments = memory_or_exit(calloc(n + 1, sizeof(*p->segments)));
    p->n = 0;
    for (size_t k = 0; k < n; k++) {
        size_t i = named ? p->segments[k] : k;

        if (tamis_snapshot_pack(p->snapshot, i, NULL, NULL) == 0)
            p->segments[p->n++] = (uint32_t)i;
        else if (is_in_lost_pack(p->snapshot, i))
            note_lost(p, i);
        else if (named)
            return not_packed(p, i);
    }
    return EXIT_DONE;
}

/* Rows that failed are of some segments; the table of columns is of use to unpacking
 * alone. */
static const char *unpack_advice(const struct packing *p)
{
    struct tamis_verify rows;

    for (size_t i = 0; i < p->n; i++)
        if (tamis_snapshot_pack_pages(p->snapshot, p->segments[i], &rows) == 0 &&
            rows.n_damaged > 0)
            return "others can be unpacked by their names; 'tamis pack --repack' saves "
                   "all that are good; build the rest anew from their keys";
    return "'tamis pack --repack' writes a whole pack, which can be unpacked";
}

static int write_files(void *packing)
{
    struct packing *p = packing;
    struct tamis_diag diag = {0};
    int err, status = pick_packed(p);

    if (status != EXIT_DONE)
        return status;
    err = tamis_edit_unpack(p->edit, p->snapshot, p->segments, p->n, &diag);
    return err ? complain_error(err, &diag, p->o->args[0],
                                err == TAMIS_ERR_DAMAGED ? unpack_advice(p) : NULL)
               : EXIT_DONE;
}

/* The files of the segments, as they are now. */
static uint64_t unpacked_bytes(const struct packing *p)
{
    struct tamis_snapshot *now = NULL;
    struct tamis_segment_info s;
    struct tamis_target t;
    uint64_t sum = 0;

    if (tamis_snapshot_current(p->store, &now, NULL) != 0)
        return 0;
    for (size_t i = 0; i < p->n; i++)
        if (tamis_snapshot_segment(p->snapshot, p->segments[i], &s) == 0 &&
            tamis_snapshot_find(now, s.name, s.name_bytes, NULL, 0, 0, &t) == 0 &&
            tamis_snapshot_segment(now, t.slot - 1, &s) == 0)
            sum += s.file_bytes;
    tamis_snapshot_release(now);
    return sum;
}

static int complain_lost(const struct packing *p)
{
    const char *s = p->n_lost == 1 ? "" : "s", *be = p->n_lost == 1 ? "is" : "are";
    const char *advice = advice_unread(p->lost_error);

    if (status_unread(p->lost_error) == EXIT_DAMAGE)
        return complain(EXIT_DAMAGE,
                        "%s: the pack%s of %llu segment%s %s missing or damaged: "
                        "'tamis verify' says which",
                        p->o->args[0], s, (unsigned long long)p->n_lost, s, be);
    return complain(status_of_error(p->lost_error),
                    "%s: the pack%s of %llu segment%s %s unreadable: %s%s%s",
                    p->o->args[0], s, (unsigned long long)p->n_lost, s, be,
                    tamis_strerror(p->lost_error), advice ? ": " : "",
                    advice ? advice : "");
}

static int report_unpack(struct packing *p)
{
    uint64_t n_bytes = unpacked_bytes(p);

    work_is_done();
    if (given(p->o, OPT_JSON)) {
        json_t *o = memory_or_exit(json_object());

        json_put(o, "unpacked", json_count(p->n));
        json_put(o, "file_bytes", json_count(n_bytes));
        json_print(o);
    } else if (!given(p->o, OPT_QUIET)) {
        if (p->n == 0 && p->n_lost == 0)
            progress_close("nothing to unpack");
        else if (p->n > 0)
            progress_close("unpacked %s: %s", COUNTED(p->n, "segment"), SIZE(n_bytes));
    }
    if (!output_works())
        return EXIT_IO;
    return p->n_lost > 0 ? complain_lost(p) : EXIT_DONE;
}

static int unpack(int argc, char **argv)
{
    struct options o;

    parse_options(argc, argv, 1, 0, &o);
    progress_start("unpack", 0);
    return run_with(&o, write_files, report_unpack);
}

const struct command cmd_unpack = {
    .name = "unpack",
    .arguments = "STORE [SEGMENT...]",
    .summary = "give packed segments files of their own",
    .about =
        "Writes the columns of packs, all or those of the named segments, as files "
        "again. Answers stay the same.\n",
    .options = {{WITH(OPT_QUIET) | WITH(OPT_JSON),
                 "print no closing line, or JSON: 'tamis help json'", NULL}},
    .examples = "tamis unpack store 000007.sst\n",
    .run = unpack,
};

/* tamis pack, unpack: many filters side by side in one file, and back. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../input/input.h"
#include "../open/open.h"
#include "../output/output.h"
#include "../talk/endings.h"
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

/* Opens the store, does `work` in an edit, and commits it unless it is `dry`. A
 * terminating signal makes the work fail, so that it leaves no file and no line. */
static int edit(struct packing *p, int (*work)(struct packing *p), bool dry)
{
    const char *path = p->o->args[0];
    struct tamis_diag diag = {0};
    struct endings endings;
    int err = tamis_edit_begin(p->store, &p->edit, &diag), status;

    if (err != 0)
        return complain_error(err, &diag, path, NULL);
    complain_later();
    endings_catch(&endings);
    status = work(p);
    if (status != EXIT_DONE || dry)
        tamis_edit_abort(p->edit);
    else
        endings_hold();
    endings_let(&endings, status != EXIT_DONE);
    complain_now();
    if (status != EXIT_DONE || dry)
        return status;
    err = tamis_edit_commit(p->edit, &diag);
    return err ? replaced_error(err, &diag, path) : EXIT_DONE;
}

static int run_with(struct options *o, int (*work)(struct packing *p),
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

/* Another process may have replaced or dropped segments before the commit: these were
 * not packed, whatever was in the file. */
static void count_placed(struct packing *p)
{
    struct tamis_pack_report *r = &p->report;
    struct tamis_snapshot *now = NULL;
    struct tamis_pack_place place;
    uint64_t n = 0;

    if (r->n_packed == 0 || tamis_snapshot_current(p->store, &now, NULL) != 0)
        return;
    for (size_t i = 0; i < tamis_snapshot_n_segments(now); i++)
        n += tamis_snapshot_pack(now, i, NULL, &place) == 0 &&
             memcmp(place.uuid, r->uuid, sizeof(place.uuid)) == 0;
    tamis_snapshot_release(now);
    if (n < r->n_packed) {
        r->n_replaced += r->n_packed - n;
        r->n_packed = n;
    }
}

static int write_pack(struct packing *p)
{
    const struct options *o = p->o;
    struct tamis_diag diag = {0};
    struct tamis_pack_options opt = {
        .size = sizeof(opt),
        .keep = given(o, OPT_KEEP),
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

static uint64_t n_left(const struct tamis_pack_report *r)
{
    return r->n_packed_before + r->n_bare + r->n_growing + r->n_stages +
           r->n_unreadable + r->n_replaced + r->n_larger;
}

static void print_json(const struct tamis_pack_report *r)
{
    json_t *o = memory_or_exit(json_object()), *left = memory_or_exit(json_object());

    json_put(o, "packed", json_count(r->n_packed));
    json_put(o, "repacked", json_count(r->n_repacked));
    if (r->n_packed > 0) {
        json_put(o, "bands", json_count(r->n_bands));
        json_put(o, "rows_bytes", json_count(r->rows_bytes));
        json_put(o, "file_bytes", json_count(r->file_bytes));
        json_put(o, "free_bytes", json_count(r->free_bytes));
    }
    json_put(left, "packed_before", json_count(r->n_packed_before));
    json_put(left, "bare", json_count(r->n_bare));
    json_put(left, "growing", json_count(r->n_growing));
    json_put(left, "several_stages", json_count(r->n_stages));
    json_put(left, "unreadable", json_count(r->n_unreadable));
    json_put(left, "replaced", json_count(r->n_replaced));
    json_put(left, "larger", json_count(r->n_larger));
    json_put(o, "left", left);
    json_print(o);
}

/* "2 growing, 1 bare": what was left. */
static void left_text(const struct tamis_pack_report *r, char *text, size_t room)
{
    const struct {
        uint64_t n;
        const char *what;
    } left[] = {{r->n_packed_before, "packed before"},
                {r->n_bare, "bare"},
                {r->n_growing, "growing"},
                {r->n_stages, "of several stages"},
                {r->n_unreadable, "damaged or unreadable"},
                {r->n_replaced, "replaced or dropped meanwhile"},
                {r->n_larger, "larger in a pack"}};
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++)
        if (left[i].n > 0)
            at += (size_t)snprintf(text + at, room - at, "%s%llu %s", at ? ", " : "",
                                   (unsigned long long)left[i].n, left[i].what);
}

static void print_line(const struct packing *p)
{
    const struct tamis_pack_report *r = &p->report;
    char size[TEXT_BYTES], room[TEXT_BYTES], left[200];
    bool dry = given(p->o, OPT_DRY_RUN);

    left_text(r, left, sizeof(left));
    if (r->n_packed == 0)
        progress_close("nothing to pack%s%s", left[0] ? ": " : "", left);
    else
        progress_close("%s %llu segment%s, %llu of them from other packs: %s, %llu "
                       "band%s%s%s%s%s",
                       dry ? "would pack" : "packed", (unsigned long long)r->n_packed,
                       r->n_packed == 1 ? "" : "s", (unsigned long long)r->n_repacked,
                       size_text(size, (double)r->file_bytes),
                       (unsigned long long)r->n_bands, r->n_bands == 1 ? "" : "s",
                       dry ? ", free: " : "",
                       dry ? size_text(room, (double)r->free_bytes) : "",
                       left[0] ? "; left: " : "", left);
}

/* Segments that were named and are left are half the work. */
static int report_pack(struct packing *p)
{
    const struct tamis_pack_report *r = &p->report;
    char left[200];

    bool fails;

    work_is_done();
    if (!given(p->o, OPT_DRY_RUN))
        count_placed(p);
    fails = r->n_unreadable > 0 || (p->segments != NULL && n_left(r) > 0);
    if (given(p->o, OPT_JSON))
        print_json(r);
    else if (!given(p->o, OPT_QUIET) && (r->n_packed > 0 || !fails))
        print_line(p);
    if (!output_works())
        return EXIT_IO;
    left_text(r, left, sizeof(left));
    if (r->n_unreadable > 0)
        return complain(EXIT_DAMAGE,
                        "%s: %llu filter%s damaged or unreadable, and left as %s: "
                        "'tamis verify' says which",
                        p->o->args[0], (unsigned long long)r->n_unreadable,
                        r->n_unreadable == 1 ? " is" : "s are",
                        r->n_unreadable == 1 ? "it is" : "they are");
    if (fails)
        return complain(EXIT_USAGE,
                        "%s: of the segments named, %s: only sealed filters of one "
                        "stage are packed, those with few others of their size stay "
                        "files, and --repack takes packed ones",
                        p->o->args[0], left);
    return EXIT_DONE;
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
    .arguments = "STORE [SEGMENT...] [--auto] [--keep]",
    .summary = "put many filters side by side in one file",
    .about =
        "Packs sealed filters, all or the named ones: then a key is asked of all of "
        "them in a few cache lines. Filters that grow, or have several stages, are "
        "left as they are; so are those that would take more than twice the room, for "
        "a "
        "row of few columns is a byte wide: pack them with more of their size. The "
        "filters' own files go, unless --keep is given; engines "
        "that mostly ask one segment at a time should keep them.\n"
        "\n"
        "With --auto it packs what is loose, and rewrites packs that are half dead or "
        "small: run it after each change, or now and then. Until the new pack is "
        "listed, the old ones take room beside it: --dry-run says how much it needs.\n",
    .options = {OPTION(AUTO, NULL),
                OPTION(REPACK, NULL),
                OPTION(KEEP, NULL),
                OPTION(DRY_RUN, NULL),
                OPTION(JOBS,
                       "use N threads, of which 8 help; default: one a processor"),
                {WITH(OPT_QUIET) | WITH(OPT_JSON),
                 "print no closing line, or JSON: 'tamis help json'", NULL}},
    .examples = "tamis pack store 000007.sst 000009.sst --keep\n"
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

    if (p->n_lost++ == 0 || err == ENOENT || status_unread(err) == EXIT_DAMAGE)
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
            return "build the segment anew from its keys; others can be unpacked by "
                   "their names, and 'tamis pack --repack' saves all that are good";
    return "'tamis pack --repack' writes a whole pack, which can be unpacked";
}

static int write_files(struct packing *p)
{
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

    if (p->lost_error == ENOENT || status_unread(p->lost_error) == EXIT_DAMAGE)
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
    char size[TEXT_BYTES];

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
            progress_close("unpacked %llu segment%s: %s", (unsigned long long)p->n,
                           p->n == 1 ? "" : "s", size_text(size, (double)n_bytes));
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
        "again. A file may be up to 64 times as large as the column, whose blocks are "
        "repeated to whole pages. Answers stay the same.\n",
    .options = {{WITH(OPT_QUIET) | WITH(OPT_JSON),
                 "print no closing line, or JSON: 'tamis help json'", NULL}},
    .examples = "tamis unpack store 000007.sst\n",
    .run = unpack,
};

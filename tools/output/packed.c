/* The report of `tamis pack`: a pack written, or one that would be, and why segments
 * were left. The report
 * counts segments that another process has replaced only if the command has counted
 * them. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "../input/input.h"
#include "../talk/screen.h"
#include "../talk/talk.h"
#include "output.h"
#include "tamis.h"

uint64_t packed_n_left(const struct tamis_pack_report *r)
{
    return r->n_packed_before + r->n_bare + r->n_growing + r->n_stages +
           r->n_unreadable + r->n_replaced + r->n_larger + r->n_newer + r->n_ribbons;
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
    json_put(left, "newer", json_count(r->n_newer));
    json_put(left, "ribbons", json_count(r->n_ribbons));
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
                {r->n_larger, "larger in a pack"},
                {r->n_newer, "of a newer version"},
                {r->n_ribbons, "of kind ribbon"}};
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++)
        if (left[i].n > 0)
            at += (size_t)snprintf(text + at, room - at, "%s%llu %s", at ? ", " : "",
                                   (unsigned long long)left[i].n, left[i].what);
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
                       (unsigned long long)r->n_repacked, SIZE(r->file_bytes),
                       COUNTED(r->n_bands, "band"), dry ? ", free: " : "",
                       dry ? SIZE(r->free_bytes) : "", left[0] ? "; left: " : "", left);
}

void packed_print(const struct options *o, const struct tamis_pack_report *r)
{
    if (given(o, OPT_JSON))
        print_json(r);
    else if (!given(o, OPT_QUIET))
        print_line(o, r);
}

/* ---- what was left ---- */

int packed_damaged(const struct tamis_pack_report *r, size_t n_lost, const char *store)
{
    unsigned long long n = r->n_unreadable;
    bool one = n == 1;

    if (n_lost >= n)
        return complain(EXIT_DAMAGE,
                        "%s: the pack%s of %llu segment%s %s missing or damaged: put "
                        "the pack's files back, or build %s anew from %s keys; 'tamis "
                        "verify' says which",
                        store, one ? "" : "s", n, one ? "" : "s", one ? "is" : "are",
                        one ? "it" : "these", one ? "its" : "their");
    return complain(EXIT_DAMAGE,
                    "%s: %llu filter%s damaged or unreadable, and left as %s: 'tamis "
                    "verify' says which",
                    store, n, one ? " is" : "s are", one ? "it is" : "they are");
}

static const char *why_text(enum tamis_left why)
{
    static const char *const texts[] = {
        [TAMIS_LEFT_PACKED] = "is in a pack already, and --repack takes it",
        [TAMIS_LEFT_BARE] = "has no filter",
        [TAMIS_LEFT_GROWING] = "still grows, and only sealed filters are packed",
        [TAMIS_LEFT_STAGES] =
            "has several stages, and only filters of one stage are packed",
        [TAMIS_LEFT_NEWER] =
            "has a feature of a newer version, which a pack would lose",
        [TAMIS_LEFT_RIBBON] = "has a ribbon, and only Bloom filters are packed",
        [TAMIS_LEFT_LARGER] =
            "would be larger in a pack: pack it with more of its size",
    };
    return why < sizeof(texts) / sizeof(texts[0]) && texts[why] ? texts[why]
                                                                : "was left";
}

int packed_left(const struct tamis_pack_report *r,
                const struct tamis_snapshot *snapshot, const char *store)
{
    struct tamis_segment_info s;
    char left[200], *name;
    bool is_replaced = r->why_left == TAMIS_LEFT_REPLACED;

    left_text(r, left, sizeof(left));
    tamis_snapshot_segment(snapshot, r->first_left, &s);
    name = escape(s.name, s.name_bytes);
    if (is_replaced)
        complain(0, "%s: segment '%s' was replaced or dropped meanwhile: run it again",
                 store, name);
    else
        complain(0, "%s: of the segments named, %s: '%s' %s", store, left, name,
                 why_text(r->why_left));
    free(name);
    return is_replaced ? EXIT_BUSY : EXIT_USAGE;
}

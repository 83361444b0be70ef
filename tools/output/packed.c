/* The report of `tamis pack`: a pack written, or one that would be, and why segments
 * were left. The report counts segments that another process has replaced only if the
 * command has counted them. */
#include "output.h"

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

uint64_t packed_n_left(const struct tamis_pack_report *r)
{
    uint64_t n = 0;
    for (int why = TAMIS_LEFT_PACKED; why < TAMIS_LEFT_REASONS; why++)
        n += r->n_left[why];
    return n;
}

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

void packed_print(const struct options *o, const struct tamis_pack_report *r)
{
    if (given(o, OPT_JSON))
        print_json(r);
    else if (!given(o, OPT_QUIET))
        print_line(o, r);
}

/* ---- what was left ---- */

int packed_damaged(const struct tamis_pack_report *r, const char *store)
{
    return complain(EXIT_DAMAGE,
                    "%s: %s damaged, or in missing or damaged packs: 'tamis verify' "
                    "says which, and what works",
                    store, COUNTED(r->n_left[TAMIS_LEFT_UNREADABLE], "filter"));
}

int packed_left(const struct tamis_pack_report *r,
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

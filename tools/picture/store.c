/* The picture of a store as SVG. Upper panel: a column a segment, by rank, as wide as
 * its file is large, filled as its bits are, coloured by age. Lower panel: its expected
 * error as a multiple of its target. Colours are legible on light and on dark, and the
 * picture has a ground of its own.
 *
 * The largest segment of a rank comes first. Segments of a rank that would be too
 * narrow to be seen share columns, so a large store takes no more memory. For a filter
 * that does not open only the catalog's figures are shown. */
#include <math.h>

#include "../output/output.h"
#include "picture.h"

/* A segment, or several of the smallest together. If there are very many, these have
 * several ranks. For filters that do not open only size and age are known. */
struct column {
    const uint8_t *name; /* of the first */
    size_t name_bytes;
    uint64_t n, n_unreadable, n_over;
    uint32_t rank, last_rank;
    uint64_t bytes, length, keys, bits, bits_set; /* bytes of the disk; of the files */
    double lowest, highest;                       /* expected error / target */
    double error, target;                         /* of the first */
    double created;                               /* mean */
};
enum { MAX_COLUMNS = 8192 }; /* more are grouped as they come */
struct picture {
    char *store; /* the title */
    uint64_t n_states[4];
    struct column *columns;
    size_t n;
    struct column all;     /* of them, together */
    uint64_t n_grouped;    /* segments that share columns */
    double oldest, newest; /* microseconds since 1970 */
};
/* A column is at least so wide. */
enum { COLUMN_WIDTH = 4 };
/* Below TOP: the ends of the two panels. */
enum { FLOOR = 356, ERROR_TOP = 412, ERROR_FLOOR = 512 };

/* ---- from a snapshot to columns ---- */

static void look_inside(struct tamis_snapshot *snapshot, size_t i, struct column *c)
{
    struct tamis_filter_info info;
    struct tamis_filter *filter;
    if (tamis_snapshot_filter(snapshot, i, &filter, NULL) != 0 ||
        tamis_filter_info(filter, &info, NULL) != 0) {
        c->n_unreadable = 1;
        tamis_filter_close(filter);
        return;
    }
    c->keys = info.keys;
    c->length = info.file_bytes;
    filter_bits(&info, &c->bits, &c->bits_set);
    c->error = info.expected_error;
    c->target = info.growth.error;
    c->n_over = over_target(&info);
    c->lowest = c->highest = c->target > 0 ? c->error / c->target : 0;
    tamis_filter_close(filter);
}

/* Columns of several segments follow the others of their rank, the narrowest first:
 * this one takes in the segments before it. */
static int compare(const void *left, const void *right)
{
    const struct column *a = left, *b = right;
    int order = (a->bytes < b->bytes) - (a->bytes > b->bytes);
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if ((a->n > 1) != (b->n > 1))
        return a->n > 1 ? 1 : -1;
    return a->n > 1 ? -order : order;
}

static void join(struct column *to, const struct column *c)
{
    bool known = c->n_unreadable < c->n, was_known = to->n_unreadable < to->n;
    if (known && (!was_known || c->lowest < to->lowest))
        to->lowest = c->lowest;
    if (known && (!was_known || c->highest > to->highest))
        to->highest = c->highest;
    to->created = (to->created * (double)to->n + c->created * (double)c->n) /
                  (double)(to->n + c->n);
    to->n += c->n;
    to->last_rank = c->last_rank > to->last_rank ? c->last_rank : to->last_rank;
    to->n_unreadable += c->n_unreadable;
    to->n_over += c->n_over;
    to->bytes += c->bytes;
    to->length += c->length;
    to->keys += c->keys;
    to->bits += c->bits;
    to->bits_set += c->bits_set;
}

/* The last column of a rank, if it is narrow, goes into the one before it. */
static void end_rank(struct picture *p, double least, size_t first, size_t *n)
{
    struct column *last = &p->columns[*n - 1];
    if (*n - first > 1 && (double)last->bytes < least && last[-1].n > 1) {
        join(last - 1, last);
        (*n)--;
    }
}

/* If there are too many ranks to be seen, neighbouring ranks share a column, up to half
 * a pixel. Any two columns are wider than that together. */
_Static_assert(MAX_COLUMNS / 2 > 2 * 2 * PICTURE_WIDTH, "so half of them stay free");
static void group_ranks(struct picture *p, double most)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        const struct column *c = &p->columns[i];
        if (n > 0 && (double)p->columns[n - 1].bytes + (double)c->bytes <= most)
            join(&p->columns[n - 1], c);
        else
            p->columns[n++] = *c;
    }
    p->n = n;
}

/* A column takes in the next segments of its rank until it is wide enough. */
static void group(struct picture *p)
{
    double least = (double)p->all.bytes * COLUMN_WIDTH / PICTURE_WIDTH;
    size_t n = 0, first = 0;
    qsort(p->columns, p->n, sizeof(*p->columns), compare);
    for (size_t i = 0; i < p->n; i++) {
        if (n > 0 && p->columns[n - 1].rank != p->columns[i].rank) {
            end_rank(p, least, first, &n);
            first = n;
        }
        if (n > first && (double)p->columns[n - 1].bytes < least)
            join(&p->columns[n - 1], &p->columns[i]);
        else
            p->columns[n++] = p->columns[i];
    }
    if (n > 0)
        end_rank(p, least, first, &n);
    p->n = n;
    if (n > MAX_COLUMNS / 2)
        group_ranks(p, least / (2 * COLUMN_WIDTH));
}

static int collect(struct tamis_snapshot *snapshot, const struct options *o,
                   struct picture *p)
{
    size_t *picked, n;
    int status =
        pick_named(snapshot, o->args[0], o->args + 1, o->n_args - 1, &picked, &n);
    if (status != EXIT_DONE)
        return status;
    p->columns = memory_or_exit(calloc(MAX_COLUMNS, sizeof(*p->columns)));
    for (size_t at = 0, i; next_picked(snapshot, picked, n, &at, &i);) {
        struct tamis_segment_info s;
        if (tamis_snapshot_segment(snapshot, i, &s) != 0)
            continue;
        p->n_states[s.state <= TAMIS_SEGMENT_SEALED ? s.state : 0]++;
        if (s.state == TAMIS_SEGMENT_BARE)
            continue;
        struct column c =
            (struct column){.name = s.name,
                            .name_bytes = s.name_bytes,
                            .n = 1,
                            .rank = s.rank,
                            .last_rank = s.rank,
                            .bytes = allocated_bytes(o->args[0], snapshot, i, &s),
                            .length = s.file_bytes,
                            .keys = s.keys,
                            .created = (double)s.created};
        look_inside(snapshot, i, &c);
        if (p->n == MAX_COLUMNS)
            group(p);
        p->oldest = p->all.n == 0 ? c.created : fmin(p->oldest, c.created);
        p->newest = fmax(p->newest, c.created);
        p->columns[p->n++] = c;
        join(&p->all, &c);
    }
    free(picked);
    group(p);
    for (size_t i = 0; i < p->n; i++)
        p->n_grouped += p->columns[i].n > 1 ? p->columns[i].n : 0;
    return EXIT_DONE;
}

/* ---- a column ---- */

/* From old to new, equally light: both ends stand out from a light or dark ground. */
static const uint8_t ages[][3] = {
    {0x5b, 0x63, 0xb7}, {0x3f, 0x86, 0xbd}, {0x2f, 0xa5, 0xa5},
    {0x5f, 0xbf, 0x7f}, {0xb5, 0xcc, 0x4a},
};
enum { N_AGES = sizeof(ages) / sizeof(ages[0]) };

/* The place on the scale of ages, 0 oldest to 1 newest, of a segment made `age`
 * microseconds before the newest. Logarithmic: recent ages matter most. */
static double age_of(const struct picture *p, double age)
{
    static const double second = 1e6;
    double span = p->newest - p->oldest;
    return span >= second ? 1 - log1p(age / second) / log1p(span / second) : 1;
}

/* #rrggbb, by age. */
enum { COLOUR_BYTES = 8 };
static const char *colour_of(char text[COLOUR_BYTES], const struct picture *p,
                             double created)
{
    double at = age_of(p, p->newest - created) * (N_AGES - 1);
    size_t i = at < 0 ? 0 : at >= N_AGES - 1 ? N_AGES - 2 : (size_t)at;
    double part = at - (double)i;
    text[0] = '#';
    for (size_t c = 0; c < 3; c++)
        snprintf(text + 1 + 2 * c, 3, "%02x",
                 (uint8_t)lround(ages[i][c] + part * (ages[i + 1][c] - ages[i][c])));
    return text;
}

/* The error panel is logarithmic: powers of two of the target. */
struct scale {
    int low, high, step;
};
static double error_y(struct scale s, double ratio)
{
    double at = ratio > 0 ? log2(ratio) : s.low;
    at = fmin(fmax(at, s.low), s.high);
    return ERROR_FLOOR - (at - s.low) / (s.high - s.low) * (ERROR_FLOOR - ERROR_TOP);
}

static void draw_name(FILE *to, const struct column *c, double x, double width)
{
    const char *name = NAME(c->name, c->name_bytes);
    /* Upright where there is room. The inner <svg> cuts its content off at its edge. */
    bool upright = width >= 220 || width >= 8 + 7 * (double)strlen(name);
    if (c->n > 1 || (!upright && width < 11))
        return;
    fprintf(to, "<svg x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\">", x, TOP, width,
            upright ? 18 : FLOOR - TOP);
    svg_text(to, 5, upright ? 13 : -(width / 2 - 4),
             upright ? "class=\"name\"" : "class=\"name\" transform=\"rotate(90)\"",
             "%s", name);
    fputs("</svg>\n", to);
}

static void draw_tip(FILE *to, const struct column *c)
{
    fputs("<title>", to);
    if (c->n == 1)
        xml_text(to, NAME(c->name, c->name_bytes));
    else
        fprintf(to, "%llu segments", LLU(c->n));
    fprintf(to, "\n%s keys, %s", COUNT(c->keys), SIZE(c->bytes));
    if (c->length != c->bytes)
        fprintf(to, " allocated, %s long", SIZE(c->length));
    if (c->rank == c->last_rank)
        fprintf(to, "\nrank %u", c->rank);
    else
        fprintf(to, "\nranks %u to %u", c->rank, c->last_rank);
    if (c->bits > 0)
        fprintf(to, "\n%.2f%% of the bits are set",
                100 * (double)c->bits_set / (double)c->bits);
    if (c->n == 1 && c->n_unreadable == 0)
        fprintf(to, "\nerror %s expected, %s wanted", PERCENT(c->error),
                PERCENT(c->target));
    else if (c->n_unreadable < c->n)
        fprintf(to, "\nerror %.3g to %.3g times the target", c->lowest, c->highest);
    if (c->n_unreadable > 0)
        fprintf(to, "\n%llu not to be read", LLU(c->n_unreadable));
    fprintf(to, "\nmade %s%s</title>", c->n > 1 ? "about " : "",
            TIME((uint64_t)c->created));
}

static void draw_rectangle(FILE *to, double x, double y, double width, double height,
                           const char *attributes)
{
    fprintf(to, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" %s/>", x, y,
            width, height, attributes);
}

/* From the least error to the largest; the part up to the target is shaded. */
static void draw_error(FILE *to, const struct column *c, struct scale s, double x,
                       double width)
{
    double highest = error_y(s, c->highest), lowest = error_y(s, c->lowest);
    double target = error_y(s, 1);
    const char *class = c->n_over > 0 ? "bad" : "mark";
    char attributes[64];
    snprintf(attributes, sizeof(attributes), "class=\"%s\" opacity=\"0.2\"", class);
    draw_rectangle(to, x, fmin(highest, target), width,
                   fmax(lowest, target) - fmin(highest, target), attributes);
    snprintf(attributes, sizeof(attributes), "class=\"%s\"%s", class,
             lowest - highest > 3 ? " opacity=\"0.5\"" : "");
    draw_rectangle(to, x, highest - 1.5, width, lowest - highest + 3, attributes);
}

static void draw_column(FILE *to, const struct picture *p, const struct column *c,
                        struct scale s, double x, double width)
{
    double height = c->bits ? (double)c->bits_set / (double)c->bits * (FLOOR - TOP) : 0;
    char fill[32], colour[COLOUR_BYTES];
    snprintf(fill, sizeof(fill), "fill=\"%s\"", colour_of(colour, p, c->created));
    fputs("<g>", to);
    draw_tip(to, c);
    draw_rectangle(to, x, TOP, width, FLOOR - TOP, "class=\"track\"");
    if (c->bits > 0)
        draw_rectangle(to, x, FLOOR - height, width, height, fill);
    if (c->n_unreadable > 0)
        draw_rectangle(to, x, TOP, width, FLOOR - TOP, "fill=\"url(#hatch)\"");
    if (c->n_unreadable < c->n)
        draw_error(to, c, s, x, width);
    fputs("</g>\n", to);
    draw_name(to, c, x, width);
}

static const char defs[] = /* and the stops of the gradient, by age */
    "<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" "
    "patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
    "<path d=\"M0 0V6\" class=\"hatch\" stroke-width=\"2\"/></pattern>\n"
    "<linearGradient id=\"age\">";

/* ---- legend ---- */

static const struct {
    const char *name;
    double seconds;
} steps[] = {{"1 s", 1},           {"10 s", 10},           {"1 min", 60},
             {"10 min", 600},      {"1 h", 3600},          {"6 h", 21600},
             {"1 day", 86400},     {"1 week", 604800},     {"30 days", 2592000},
             {"1 year", 31536000}, {"10 years", 315360000}};
enum { N_STEPS = sizeof(steps) / sizeof(steps[0]) };
enum { AGES_LEFT = LEFT + 40, AGES_WIDTH = 300, AGES_Y = 82, STEP_WIDTH = 52 };

/* As many as have room, each under its place on the scale; the new end is "newest". */
static void draw_steps(FILE *to, const struct picture *p)
{
    double span = (p->newest - p->oldest) / 1e6;
    double free_from = AGES_LEFT - STEP_WIDTH / 2.0;
    double free_to = AGES_LEFT + AGES_WIDTH - STEP_WIDTH;
    for (size_t i = N_STEPS; i-- > 0;) {
        double x = AGES_LEFT + AGES_WIDTH * age_of(p, steps[i].seconds * 1e6);
        if (steps[i].seconds > span || x < free_from || x > free_to)
            continue;
        fprintf(to, "<path d=\"M%.1f %dv4\" class=\"axis\"/>\n", x, AGES_Y + 12);
        svg_text(to, x, AGES_Y + 26, "text-anchor=\"middle\" class=\"small\"", "%s",
                 steps[i].name);
        free_from = x + STEP_WIDTH;
    }
    svg_text(to, AGES_LEFT + AGES_WIDTH, AGES_Y + 26,
             "text-anchor=\"end\" class=\"small\"", "newest");
}

/* How much older than the newest segment; it, and when it was made. */
static void draw_ages(FILE *to, const struct picture *p)
{
    bool one = p->newest - p->oldest < 1e6;
    int width = one ? 40 : AGES_WIDTH;
    char colour[COLOUR_BYTES];
    svg_text(to, LEFT, AGES_Y + 10, "", one ? "made" : "older");
    fprintf(to,
            "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"12\" rx=\"2\" "
            "fill=\"%s\"/>\n",
            AGES_LEFT, AGES_Y, width,
            one ? colour_of(colour, p, p->newest) : "url(#age)");
    if (one) {
        svg_text(to, AGES_LEFT + width + 8, AGES_Y + 10, "", "%s",
                 TIME((uint64_t)p->newest));
        return;
    }
    svg_text(to, AGES_LEFT + width + 8, AGES_Y + 10, "", "made %s to %s",
             TIME((uint64_t)p->oldest), TIME((uint64_t)p->newest));
    draw_steps(to, p);
}

static void draw_legend(FILE *to, const struct picture *p)
{
    enum { MOST = 60 };
    size_t n = strlen(p->store);
    const char *name = p->store + (n > MOST ? n - MOST : 0);
    while (((uint8_t)*name & 0xc0) == 0x80) /* the end says more than the beginning */
        name++;
    double x = LEFT + 430; /* in the row of the panel's title */
    svg_text(to, LEFT, 40, "class=\"title\"", "%s%s", name == p->store ? "" : "…",
             name);
    svg_text(to, LEFT, 62, "",
             "%s sealed, %s growing, %s without a filter; %s keys in %s of filters",
             COUNT(p->n_states[TAMIS_SEGMENT_SEALED]),
             COUNT(p->n_states[TAMIS_SEGMENT_GROWING]),
             COUNT(p->n_states[TAMIS_SEGMENT_BARE]), COUNT(p->all.keys),
             SIZE(p->all.bytes));
    if (p->n == 0)
        return;
    draw_ages(to, p);
    if (p->all.n_over > 0) {
        fprintf(to,
                "<rect x=\"%.0f\" y=\"%d\" width=\"14\" height=\"4\" class=\"bad\"/>\n",
                x, TOP - 14);
        svg_text(to, x + 20, TOP - 8, "", "over the target error: %llu",
                 LLU(p->all.n_over));
        x += 190;
    }
    if (p->all.n_unreadable > 0) {
        fprintf(to,
                "<rect x=\"%.0f\" y=\"%d\" width=\"14\" height=\"12\" "
                "fill=\"url(#hatch)\"/>\n",
                x, TOP - 18);
        svg_text(to, x + 20, TOP - 8, "", "not to be read: %llu",
                 LLU(p->all.n_unreadable));
    }
}

/* ---- axes ---- */

static void draw_line(FILE *to, double y, const char *class)
{
    fprintf(to, "<path d=\"M%d %.1fH%d\" class=\"%s\"/>\n", LEFT, y, RIGHT, class);
}

/* Errors far below the target matter little, so the scale ends soon there. */
static struct scale scale_of(const struct picture *p)
{
    struct scale s = {.low = p->all.lowest < 0.25 ? -4 : -2, .high = 1};
    if (p->all.highest > 2)
        s.high = (int)fmin(ceil(log2(p->all.highest)), 30);
    s.step = 1 + (s.high - s.low) / 6;
    s.high += (s.step - s.high % s.step) % s.step;
    s.low -= (s.step + s.low % s.step) % s.step;
    return s;
}

static void draw_axes(FILE *to, const struct picture *p, struct scale s)
{
    svg_text(to, LEFT, TOP - 8, "", "bits set, of each segment");
    for (int percent = 0; percent <= 100; percent += 25) {
        double y = FLOOR - percent * (FLOOR - TOP) / 100.0;
        draw_line(to, y, percent ? "grid" : "axis");
        svg_text(to, LEFT - 8, y + 4, "text-anchor=\"end\"", "%d%%", percent);
    }
    svg_text(to, LEFT, ERROR_TOP - 10, "",
             "error to expect, as a multiple of the target");
    for (int power = s.low; power <= s.high; power++) {
        const char *sign = power == s.low && p->all.lowest < exp2(s.low) ? "≤ " : "";
        if (power % s.step != 0)
            continue;
        draw_line(to, error_y(s, exp2(power)), power ? "grid" : "axis");
        if (power == 0)
            svg_text(to, LEFT - 8, error_y(s, 1) + 4,
                     "text-anchor=\"end\" class=\"strong\"", "target");
        else
            svg_text(to, LEFT - 8, error_y(s, exp2(power)) + 4, "text-anchor=\"end\"",
                     power < 0 ? "%s1/%.0f" : "%s%.0f×", sign, exp2(abs(power)));
    }
    for (int quarter = 0; quarter <= 4; quarter++) {
        svg_text(to, LEFT + quarter * PICTURE_WIDTH / 4.0, ERROR_FLOOR + 20,
                 quarter == 0   ? ""
                 : quarter == 4 ? "text-anchor=\"end\""
                                : "text-anchor=\"middle\"",
                 "%s", SIZE((double)p->all.bytes * quarter / 4));
    }
}

/* A bracket under the columns of a rank, and the longest of its names that has room. */
static void draw_rank(FILE *to, uint32_t rank, uint64_t n, double x, double end)
{
    char names[3][64];
    if (end - x < 3)
        return;
    fprintf(to, "<path d=\"M%.1f %dv5H%.1fv-5\" fill=\"none\" class=\"axis\"/>\n",
            x + 0.5, FLOOR + 4, end - 0.5);
    snprintf(names[0], sizeof(names[0]), "rank %u: %s segment%s", rank, COUNT(n),
             n == 1 ? "" : "s");
    snprintf(names[1], sizeof(names[1]), "rank %u", rank);
    snprintf(names[2], sizeof(names[2]), "%u", rank);
    for (size_t i = 0; i < 3; i++) {
        if (7.5 * (double)strlen(names[i]) + 3 > end - x)
            continue;
        svg_text(to, (x + end) / 2, FLOOR + 23, "text-anchor=\"middle\"", "%s",
                 names[i]);
        break;
    }
}

static void draw_columns(FILE *to, const struct picture *p, struct scale s)
{
    double x = LEFT, of_rank = LEFT;
    uint64_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        const struct column *c = &p->columns[i];
        double width = (double)c->bytes / (double)p->all.bytes * PICTURE_WIDTH;
        bool last = i + 1 == p->n || c[1].rank != c->rank;
        double gap = i + 1 == p->n ? 0 : width > 12 ? 2 : width / 6;
        draw_column(to, p, c, s, x, fmax(width - gap, 0.5));
        x += width;
        n += c->n;
        if (!last)
            continue;
        draw_rank(to, c->rank, n, of_rank, x);
        of_rank = x;
        n = 0;
    }
}

static void draw_picture(FILE *to, const struct picture *p)
{
    struct scale s = scale_of(p);
    svg_begin(to, "tamis store ", p->store);
    fputs(defs, to);
    for (int i = 0; i < N_AGES; i++)
        fprintf(to, "<stop offset=\"%d%%\" stop-color=\"#%02x%02x%02x\"/>",
                100 * i / (N_AGES - 1), ages[i][0], ages[i][1], ages[i][2]);
    fputs("</linearGradient></defs>\n", to);
    draw_legend(to, p);
    if (p->n == 0 || p->all.bytes == 0) {
        svg_text(to, WIDTH / 2.0, HEIGHT / 2.0, "text-anchor=\"middle\"",
                 "no segment has a filter");
    } else {
        draw_axes(to, p, s);
        draw_columns(to, p, s);
        draw_line(to, error_y(s, 1), "axis");
        svg_text(to, LEFT, HEIGHT - 26, "",
                 "Width: bytes of the disk, by rank, the largest of a rank first. "
                 "Point at a column for its name and numbers.");
    }
    if (p->n_grouped > 0)
        svg_text(to, LEFT, HEIGHT - 10, "",
                 "The %s smallest segments of their ranks, several in a column: their "
                 "bits in all, mean age, least to largest error.",
                 COUNT(p->n_grouped));
    fputs("</svg>\n", to);
}

int store_picture(struct tamis_snapshot *snapshot, const struct options *o)
{
    struct picture p = {0};
    int status = collect(snapshot, o, &p);
    struct drawing drawing;
    if (status == EXIT_DONE) {
        p.store = escape(o->args[0], strlen(o->args[0]));
        draw_picture(drawing_begin(&drawing), &p);
        status = drawing_end(&drawing, o->svg);
    }
    free(p.store);
    free(p.columns);
    return status;
}

/* The picture of a store as SVG. Upper panel: a column a segment, by rank, as wide as
 * its file is large, filled as its bits are, coloured by age. Lower panel: its expected
 * error as a multiple of its target. Colours are legible on light and on dark, and the
 * picture has a ground of its own. */
#include <math.h>

#include "inside.h"

static const char defs[] =
    "<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" "
    "patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
    "<path d=\"M0 0V6\" class=\"hatch\" stroke-width=\"2\"/></pattern>\n"
    "<linearGradient id=\"age\">";

/* ---- legend ---- */

static void draw_head(FILE *to, const struct picture *p)
{
    svg_begin(to, "tamis store ", p->store);
    fputs(defs, to);
    picture_ages(to);
    fputs("</linearGradient></defs>\n", to);
}

/* The end of a long path says more than its beginning. */
static const char *tail(const char *text, size_t max)
{
    size_t n = strlen(text);
    const char *at = text + (n > max ? n - max : 0);
    while (((uint8_t)*at & 0xc0) == 0x80)
        at++;
    return at;
}

struct step {
    const char *name;
    double seconds;
};
static const struct step steps[] = {
    {"1 s", 1},           {"10 s", 10},           {"1 min", 60},
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
        double x = AGES_LEFT + AGES_WIDTH * picture_age(p, steps[i].seconds * 1e6);
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
            one ? picture_colour(colour, p, p->newest) : "url(#age)");
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
    const char *name = tail(p->store, 60);
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
        draw_line(to, picture_error_y(s, exp2(power)), power ? "grid" : "axis");
        if (power == 0)
            svg_text(to, LEFT - 8, picture_error_y(s, 1) + 4,
                     "text-anchor=\"end\" class=\"strong\"", "target");
        else
            svg_text(to, LEFT - 8, picture_error_y(s, exp2(power)) + 4,
                     "text-anchor=\"end\"", power < 0 ? "%s1/%.0f" : "%s%.0f×", sign,
                     exp2(abs(power)));
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
        picture_column(to, p, c, s, x, fmax(width - gap, 0.5));
        x += width;
        n += c->n;
        if (!last)
            continue;
        draw_rank(to, c->rank, n, of_rank, x);
        of_rank = x;
        n = 0;
    }
}

static void draw_notes(FILE *to, const struct picture *p)
{
    svg_text(
        to, LEFT, HEIGHT - 26, "",
        "Width: bytes of the disk, by rank, the largest of a rank first. Point at a "
        "column for its name and numbers.");
    if (p->n_grouped > 0)
        svg_text(to, LEFT, HEIGHT - 10, "",
                 "The %s smallest segments of their ranks, several in a column: their "
                 "bits in all, mean age, least to largest error.",
                 COUNT(p->n_grouped));
}

void picture_draw(FILE *to, const struct picture *p)
{
    struct scale s = scale_of(p);
    draw_head(to, p);
    draw_legend(to, p);
    if (p->n == 0 || p->all.bytes == 0) {
        svg_text(to, WIDTH / 2.0, HEIGHT / 2.0, "text-anchor=\"middle\"",
                 "no segment has a filter");
    } else {
        draw_axes(to, p, s);
        draw_columns(to, p, s);
        draw_line(to, picture_error_y(s, 1), "axis");
        draw_notes(to, p);
    }
    fputs("</svg>\n", to);
}

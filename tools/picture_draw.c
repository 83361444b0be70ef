/* The picture of a store as SVG. Upper panel: a column a segment, as wide as its file
 * is large, filled as its bits are, coloured by age. Lower panel: its expected error as
 * a multiple of its target. Colours are legible on light and on dark, and the picture
 * has a ground of its own. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "picture.h"

static const char defs[] =
    "<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" "
    "patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
    "<path d=\"M0 0V6\" class=\"hatch\" stroke-width=\"2\"/></pattern>\n"
    "<linearGradient id=\"age\">";

/* ---- legend ---- */

static void draw_head(FILE *to, const struct picture *p)
{
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
            "width=\"%d\" height=\"%d\" role=\"img\">\n<title>tamis store ",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    xml_text(to, p->store);
    fprintf(to, "</title>\n%s%s", svg_style, defs);
    picture_ages(to);
    fprintf(to,
            "</linearGradient></defs>\n<rect x=\"0.5\" y=\"0.5\" width=\"%d\" "
            "height=\"%d\" rx=\"8\" class=\"ground\"/>\n",
            WIDTH - 1, HEIGHT - 1);
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

/* Days, and times within one. */
static void draw_ages(FILE *to, const struct picture *p)
{
    char oldest[TEXT_BYTES], newest[TEXT_BYTES];
    size_t length = 10;

    time_text(oldest, (uint64_t)p->oldest);
    time_text(newest, (uint64_t)p->newest);
    if (strncmp(oldest, newest, length) == 0)
        length = 19;
    oldest[length] = newest[length] = '\0';
    svg_text(to, LEFT, 92, "", "made");
    fprintf(to, "<rect x=\"%d\" y=\"82\" width=\"80\" height=\"12\" rx=\"2\" fill=\"",
            LEFT + 40);
    if (p->newest > p->oldest)
        fputs("url(#age)", to);
    else
        picture_colour(to, p, p->newest);
    fputs("\"/>\n", to);
    svg_text(to, LEFT + 128, 92, "", p->newest > p->oldest ? "%s to %s" : "%s", oldest,
             newest);
}

static void draw_legend(FILE *to, const struct picture *p)
{
    const char *name = tail(p->store, 60);
    double x = LEFT + 430;

    svg_text(to, LEFT, 40, "class=\"title\"", "%s%s", name == p->store ? "" : "…",
             name);
    svg_text(to, LEFT, 62, "", "%s", p->what);
    if (p->n == 0)
        return;
    draw_ages(to, p);
    if (p->n_over > 0) {
        fprintf(to,
                "<rect x=\"%.0f\" y=\"86\" width=\"14\" height=\"4\" class=\"bad\"/>\n",
                x);
        svg_text(to, x + 20, 92, "", "over the target error: %llu",
                 (unsigned long long)p->n_over);
        x += 190;
    }
    if (p->n_unreadable > 0) {
        fprintf(to,
                "<rect x=\"%.0f\" y=\"82\" width=\"14\" height=\"12\" "
                "fill=\"url(#hatch)\"/>\n",
                x);
        svg_text(to, x + 20, 92, "", "not to be read: %llu",
                 (unsigned long long)p->n_unreadable);
    }
}

/* ---- axes ---- */

static void draw_line(FILE *to, double y, const char *class)
{
    fprintf(to, "<path d=\"M%d %.1fH%d\" class=\"%s\"/>\n", LEFT, y, RIGHT, class);
}

/* How far below it a filter is matters little: there the scale ends soon. */
static struct scale scale_of(const struct picture *p)
{
    struct scale s = {.low = p->lowest < 0.25 ? -4 : -2, .high = 1};

    if (p->highest > 2)
        s.high = (int)fmin(ceil(log2(p->highest)), 30);
    s.step = 1 + (s.high - s.low) / 6;
    s.high += (s.step - s.high % s.step) % s.step;
    s.low -= (s.step + s.low % s.step) % s.step;
    return s;
}

static void draw_axes(FILE *to, const struct picture *p, struct scale s)
{
    svg_text(to, LEFT, TOP - 8, "", "bits set, of each segment by size");
    for (int percent = 0; percent <= 100; percent += 25) {
        double y = FLOOR - percent * (FLOOR - TOP) / 100.0;

        draw_line(to, y, percent ? "grid" : "axis");
        svg_text(to, LEFT - 8, y + 4, "text-anchor=\"end\"", "%d%%", percent);
    }
    svg_text(to, LEFT, ERROR_TOP - 10, "",
             "error to expect, as a multiple of the target");
    for (int power = s.low; power <= s.high; power++) {
        const char *sign = power == s.low && p->lowest < exp2(s.low) ? "≤ " : "";

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
        char size[TEXT_BYTES];

        svg_text(to, LEFT + quarter * PICTURE_WIDTH / 4.0, ERROR_FLOOR + 20,
                 quarter == 0   ? ""
                 : quarter == 4 ? "text-anchor=\"end\""
                                : "text-anchor=\"middle\"",
                 "%s", size_text(size, (double)p->bytes * quarter / 4));
    }
}

static void draw_columns(FILE *to, const struct picture *p, struct scale s)
{
    double x = LEFT, grouped = 0;
    char n[TEXT_BYTES];

    for (size_t i = 0; i < p->n; i++) {
        const struct column *c = &p->columns[i];
        double width = (double)c->bytes / (double)p->bytes * PICTURE_WIDTH;
        double gap = i + 1 == p->n ? 0 : width > 12 ? 2 : width / 6;

        if (c->n > 1 && grouped == 0)
            grouped = x;
        picture_column(to, p, c, s, x, fmax(width - gap, 0.5));
        x += width;
    }
    if (grouped == 0)
        return;
    if (RIGHT - grouped > 24)
        fprintf(to, "<path d=\"M%.1f %dv5H%dv-5\" fill=\"none\" class=\"axis\"/>\n",
                grouped, FLOOR + 4, RIGHT);
    svg_text(to, RIGHT, FLOOR + 24, "text-anchor=\"end\"",
             "the %s smallest segments, several in a column: their bits in all, mean "
             "age, least to largest error",
             count_text(n, p->n_grouped));
}

void picture_draw(FILE *to, const struct picture *p)
{
    struct scale s = scale_of(p);

    draw_head(to, p);
    draw_legend(to, p);
    if (p->n == 0 || p->bytes == 0) {
        svg_text(to, WIDTH / 2.0, HEIGHT / 2.0, "text-anchor=\"middle\"",
                 "no segment has a filter");
    } else {
        draw_axes(to, p, s);
        draw_columns(to, p, s);
        draw_line(to, picture_error_y(s, 1), "axis");
        svg_text(
            to, LEFT, HEIGHT - 18, "",
            "Width: bytes of the files, the largest first. Point at a column for its "
            "name and numbers.");
    }
    fputs("</svg>\n", to);
}

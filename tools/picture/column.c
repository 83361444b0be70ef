/* A column of the picture. Upper panel: as wide as the segment's file is large, filled
 * as its bits are, coloured by age. Lower panel: its expected error as a multiple of
 * its target. */
#include <math.h>

#include "inside.h"

/* From old to new, equally light: both ends stand out from a light or dark ground. */
static const uint8_t ages[][3] = {
    {0x5b, 0x63, 0xb7}, {0x3f, 0x86, 0xbd}, {0x2f, 0xa5, 0xa5},
    {0x5f, 0xbf, 0x7f}, {0xb5, 0xcc, 0x4a},
};
enum { N_AGES = sizeof(ages) / sizeof(ages[0]) };

double picture_age(const struct picture *p, double age)
{
    static const double second = 1e6;
    double span = p->newest - p->oldest;
    return span >= second ? 1 - log1p(age / second) / log1p(span / second) : 1;
}

const char *picture_colour(char text[COLOUR_BYTES], const struct picture *p,
                           double created)
{
    double at = picture_age(p, p->newest - created) * (N_AGES - 1);
    size_t i = at < 0 ? 0 : at >= N_AGES - 1 ? N_AGES - 2 : (size_t)at;
    double part = at - (double)i;
    text[0] = '#';
    for (size_t c = 0; c < 3; c++)
        snprintf(text + 1 + 2 * c, 3, "%02x",
                 (uint8_t)lround(ages[i][c] + part * (ages[i + 1][c] - ages[i][c])));
    return text;
}

void picture_ages(FILE *to)
{
    for (int i = 0; i < N_AGES; i++)
        fprintf(to, "<stop offset=\"%d%%\" stop-color=\"#%02x%02x%02x\"/>",
                100 * i / (N_AGES - 1), ages[i][0], ages[i][1], ages[i][2]);
}

double picture_error_y(struct scale s, double ratio)
{
    double at = ratio > 0 ? log2(ratio) : s.low;
    at = fmin(fmax(at, s.low), s.high);
    return ERROR_FLOOR - (at - s.low) / (s.high - s.low) * (ERROR_FLOOR - ERROR_TOP);
}

static void draw_name(FILE *to, const struct column *c, double x, double width)
{
    const char *name = NAME(c->name, c->name_bytes);
    /* Upright where there is room. The inner <svg> cuts its content off at its edge. */
    if (c->n == 1 && (width >= 220 || width >= 8 + 7 * (double)strlen(name))) {
        fprintf(to, "<svg x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"18\">", x, TOP,
                width);
        svg_text(to, 5, 13, "class=\"name\"", "%s", name);
        fputs("</svg>\n", to);
    } else if (c->n == 1 && width >= 11) {
        fprintf(to, "<svg x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\">", x, TOP,
                width, FLOOR - TOP);
        svg_text(to, 5, -(width / 2 - 4), "class=\"name\" transform=\"rotate(90)\"",
                 "%s", name);
        fputs("</svg>\n", to);
    }
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
    double highest = picture_error_y(s, c->highest),
           lowest = picture_error_y(s, c->lowest);
    double target = picture_error_y(s, 1);
    const char *class = c->n_over > 0 ? "bad" : "mark";
    char attributes[64];
    snprintf(attributes, sizeof(attributes), "class=\"%s\" opacity=\"0.2\"", class);
    draw_rectangle(to, x, fmin(highest, target), width,
                   fmax(lowest, target) - fmin(highest, target), attributes);
    snprintf(attributes, sizeof(attributes), "class=\"%s\"%s", class,
             lowest - highest > 3 ? " opacity=\"0.5\"" : "");
    draw_rectangle(to, x, highest - 1.5, width, lowest - highest + 3, attributes);
}

void picture_column(FILE *to, const struct picture *p, const struct column *c,
                    struct scale s, double x, double width)
{
    double height = c->bits ? (double)c->bits_set / (double)c->bits * (FLOOR - TOP) : 0;
    char fill[32], colour[COLOUR_BYTES];
    snprintf(fill, sizeof(fill), "fill=\"%s\"", picture_colour(colour, p, c->created));
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

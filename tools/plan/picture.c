/* Draws `tamis plan --svg`: a point a segment, its keys to the right, its error
 * upwards, both logarithmic. Planned errors lie on a line through the runs' sizes,
 * which whole pages bend; one error for all is level. */
#include <math.h>

#include "../picture/picture.h"
#include "inside.h"

/* From 10^low to 10^high; of errors, and of keys. */
struct axis {
    int low, high;
};
struct chart {
    const struct store_plan *plan;
    struct axis keys, error;
    FILE *to;
};
enum { CHART_FLOOR = 520 };
static const char dashed[] = "class=\"axis\" stroke-dasharray=\"6 4\"";

static double key_x(const struct chart *c, double keys)
{
    double at = log10(keys < 1 ? 1 : keys);
    return LEFT + PICTURE_WIDTH * (at - c->keys.low) / (c->keys.high - c->keys.low);
}

static double error_y(const struct chart *c, double error)
{
    double at = error > 0 ? log10(error) : c->error.low;
    at = at < c->error.low ? c->error.low : at;
    return TOP +
           (CHART_FLOOR - TOP) * (c->error.high - at) / (c->error.high - c->error.low);
}

/* Nothing is shown below 1e-10. */
static void find_axes(struct chart *c)
{
    double least = 0.1, fewest = INFINITY, most = 10;
    for (size_t i = 0; i < c->plan->n; i++) {
        const struct tamis_plan_share *s = &c->plan->shares[i];
        double keys = (double)c->plan->segments[i].keys;
        if (s->plan.file_bytes > 0)
            least = fmin(least, s->plan.error);
        fewest = fmin(fewest, fmax(keys, 1));
        most = fmax(most, keys);
    }
    c->error = (struct axis){(int)floor(log10(fmax(least, 1e-10))), 0};
    c->keys.high = (int)ceil(log10(most));
    c->keys.low = (int)floor(log10(fmin(fewest, most)));
    if (c->keys.low == c->keys.high)
        c->keys.high++;
}

/* ---- what is drawn ---- */

/* 10 to the power of n; superscripts are characters, for not all viewers shift text. */
static const char *power_text(char text[TEXT_BYTES], int n)
{
    static const char *const digits[] = {"⁰", "¹", "²", "³", "⁴",
                                         "⁵", "⁶", "⁷", "⁸", "⁹"};
    int size = abs(n);
    snprintf(text, TEXT_BYTES, "10%s%s%s", n < 0 ? "⁻" : "",
             size >= 10 ? digits[size / 10 % 10] : "", digits[size % 10]);
    return n == 0 ? "1" : text;
}

static void draw_grid(const struct chart *c)
{
    /* 1, 10, 100, 1k ... as counts are written. */
    static const char *const units[] = {"", "k", "M", "G", "T", "P"};
    static const char *const numbers[] = {"1", "10", "100"};
    char text[TEXT_BYTES];
    for (int e = c->error.low; e <= c->error.high; e++) {
        double y = error_y(c, pow(10, e));
        fprintf(c->to, "<path d=\"M%d %.1fH%d\" class=\"grid\"/>\n", LEFT, y, RIGHT);
        svg_text(c->to, LEFT - 8, y + 4, "text-anchor=\"end\"", "%s",
                 power_text(text, e));
    }
    for (int k = c->keys.low; k <= c->keys.high; k++) {
        double x = key_x(c, pow(10, k));
        fprintf(c->to, "<path d=\"M%.1f %dV%d\" class=\"grid\"/>\n", x, TOP,
                CHART_FLOOR);
        svg_text(c->to, x, CHART_FLOOR + 18, "text-anchor=\"middle\"", "%s%s",
                 numbers[k % 3], units[k / 3 % 6]);
    }
    svg_text(c->to, RIGHT, CHART_FLOOR + 38, "text-anchor=\"end\"",
             "keys of the segment");
    svg_text(c->to, LEFT, TOP - 12, "",
             "error: reads wasted by a lookup of an absent key, as a fraction");
}

static void draw_point(const struct chart *c, size_t i, double x, double y)
{
    const struct planned *s = &c->plan->segments[i];
    const struct tamis_plan_share *to = &c->plan->shares[i];
    fprintf(c->to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" %s><title>", x, y,
            to->plan.file_bytes > 0 ? "fill=\"#2f81f7\" fill-opacity=\"0.7\""
                                    : "class=\"bad\" fill-opacity=\"0.7\"");
    xml_text(c->to, s->name ? s->name : "-");
    fprintf(c->to, "\n%s keys, ", COUNT(s->keys));
    if (to->plan.file_bytes > 0)
        fprintf(c->to, "%s, %s", PERCENT(to->plan.error), SIZE(to->plan.file_bytes));
    else
        fputs("no filter", c->to);
    fputs("</title></circle>\n", c->to);
}

/* Draws points, but none where another one is: it would not be seen. */
static void draw_points(const struct chart *c)
{
    enum { CELL = 2, ROWS = HEIGHT / CELL + 1, COLUMNS = WIDTH / CELL + 1 };
    bool *taken = memory_or_exit(calloc((size_t)ROWS * COLUMNS, sizeof(*taken)));
    for (size_t i = 0; i < c->plan->n; i++) {
        double x = key_x(c, (double)c->plan->segments[i].keys);
        const struct tamis_plan_share *to = &c->plan->shares[i];
        double y = error_y(c, to->plan.file_bytes > 0 ? to->plan.error : 1);
        bool *cell = &taken[(size_t)(y / CELL) * COLUMNS + (size_t)(x / CELL)];
        if (!*cell)
            draw_point(c, i, x, y);
        *cell = true;
    }
    free(taken);
}

/* 478, 93,920, 2.1×10⁻⁵ */
static const char *reads_text(char text[TEXT_BYTES], double reads)
{
    char power[TEXT_BYTES];
    if (reads >= 1e4)
        return count_text(text, (uint64_t)reads);
    if (!(reads > 0 && reads < 1e-3)) {
        snprintf(text, TEXT_BYTES, "%.4g", reads);
        return text;
    }
    int exponent = (int)floor(log10(reads));
    snprintf(text, TEXT_BYTES, "%.3g×%s", reads * pow(10, -exponent),
             power_text(power, exponent));
    return text;
}

static void draw_legend(const struct chart *c, const struct options *o)
{
    const struct tamis_plan_summary *s = &c->plan->summary;
    char reads[TEXT_BYTES];
    const char *path = o->n_args > 0 ? o->args[0] : o->sizes;
    svg_text(c->to, LEFT, 40, "class=\"title\"", "%.80s", PATH(path));
    svg_text(c->to, LEFT, 66, "class=\"strong\"",
             "planned: %s reads wasted by a lookup of an absent key, of %s runs, "
             "with filters of %s",
             reads_text(reads, s->best.reads), COUNT(s->n_runs),
             SIZE(s->best.file_bytes));
    fprintf(c->to, "<path d=\"M%d 82h28\" %s/>\n", LEFT, dashed);
    svg_text(c->to, LEFT + 36, 86, "", "one error for all: %s, with filters of %s",
             reads_text(reads, s->uniform.reads), SIZE(s->uniform.file_bytes));
    if (s->best.n_filters == c->plan->n)
        return;
    fprintf(c->to, "<circle cx=\"%d\" cy=\"%d\" r=\"4\" class=\"bad\"/>\n", RIGHT - 66,
            TOP - 16);
    svg_text(c->to, RIGHT, TOP - 12, "text-anchor=\"end\"", "no filter");
}

int plan_picture(const struct options *o, const struct store_plan *p)
{
    struct drawing drawing;
    struct chart c = {.plan = p, .to = drawing_begin(&drawing)};
    find_axes(&c);
    svg_begin(c.to, "tamis plan", "");
    draw_legend(&c, o);
    draw_grid(&c);
    fprintf(c.to, "<path d=\"M%d %.1fH%d\" %s/>\n", LEFT,
            error_y(&c, p->summary.uniform_error), RIGHT, dashed);
    draw_points(&c);
    fputs("</svg>\n", c.to);
    return drawing_end(&drawing, o->svg);
}

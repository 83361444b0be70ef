/* What `tamis plan --svg` draws: a point a segment, its keys to the right, its error
 * upwards, both logarithmic. Planned errors lie on a line through the runs' sizes,
 * which whole pages bend; one error for all is level. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "picture.h"
#include "plan.h"

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
        c->keys.low--;
}

/* ---- what is drawn ---- */

static void draw_grid(const struct chart *c)
{
    for (int e = c->error.low; e <= c->error.high; e++) {
        double y = error_y(c, pow(10, e));

        fprintf(c->to, "<path d=\"M%d %.1fH%d\" class=\"grid\"/>\n", LEFT, y, RIGHT);
        svg_text(c->to, LEFT - 8, y + 4, "text-anchor=\"end\"", "%g%%",
                 100 * pow(10, e));
    }
    for (int k = c->keys.low; k <= c->keys.high; k++) {
        double x = key_x(c, pow(10, k));

        fprintf(c->to, "<path d=\"M%.1f %dV%d\" class=\"grid\"/>\n", x, TOP,
                CHART_FLOOR);
        svg_text(c->to, x, CHART_FLOOR + 18, "text-anchor=\"middle\"", "10^%d", k);
    }
    svg_text(c->to, RIGHT, CHART_FLOOR + 36, "text-anchor=\"end\"",
             "keys of the segment");
    svg_text(c->to, LEFT, TOP - 12, "",
             "error: a read wasted by a lookup of an absent key");
}

static void draw_uniform(const struct chart *c)
{
    const struct tamis_plan_summary *s = &c->plan->summary;
    double y = error_y(c, s->uniform_error);

    fprintf(c->to,
            "<path d=\"M%d %.1fH%d\" class=\"axis\" stroke-dasharray=\"6 4\"/>\n", LEFT,
            y, RIGHT);
    svg_text(c->to, RIGHT - 4, y - 6, "text-anchor=\"end\"", "one error for all");
}

static void draw_point(const struct chart *c, size_t i, double x, double y)
{
    const struct planned *s = &c->plan->segments[i];
    const struct tamis_plan_share *to = &c->plan->shares[i];
    char keys[TEXT_BYTES], size[TEXT_BYTES], error[TEXT_BYTES];

    fprintf(c->to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" %s><title>", x, y,
            to->plan.file_bytes > 0 ? "fill=\"#2f81f7\" fill-opacity=\"0.7\""
                                    : "class=\"bad\" fill-opacity=\"0.7\"");
    xml_text(c->to, s->name ? s->name : "-");
    fprintf(c->to, "\n%s keys, ", count_text(keys, s->keys));
    if (to->plan.file_bytes > 0)
        fprintf(c->to, "%s, %s", percent_text(error, to->plan.error),
                size_text(size, (double)to->plan.file_bytes));
    else
        fputs("no filter", c->to);
    fputs("</title></circle>\n", c->to);
}

/* Where a point is already there is no room for another. */
static void draw_points(const struct chart *c)
{
    enum { CELL = 2, ROWS = HEIGHT / CELL + 1, COLUMNS = WIDTH / CELL + 1 };
    bool *taken = need(calloc((size_t)ROWS * COLUMNS, sizeof(*taken)));

    for (size_t i = 0; i < c->plan->n; i++) {
        const struct tamis_plan_share *s = &c->plan->shares[i];
        double x = key_x(c, (double)c->plan->segments[i].keys);
        double y = error_y(c, s->plan.file_bytes > 0 ? s->plan.error : 1);
        bool *cell = &taken[(size_t)(y / CELL) * COLUMNS + (size_t)(x / CELL)];

        if (!*cell)
            draw_point(c, i, x, y);
        *cell = true;
    }
    free(taken);
}

static void draw_legend(const struct chart *c, const struct options *o)
{
    const struct tamis_plan_summary *s = &c->plan->summary;
    char size[TEXT_BYTES], uniform[TEXT_BYTES], runs[TEXT_BYTES], *name;
    const char *path = o->n_args > 0 ? o->args[0] : o->sizes;

    name = escape(path, strlen(path));
    svg_text(c->to, LEFT, 40, "class=\"title\"", "%.80s", name);
    free(name);
    svg_text(c->to, LEFT, 66, "class=\"strong\"",
             "planned: %.4g reads wasted by a lookup of an absent key, of %s runs, "
             "with filters of %s",
             s->best.reads, count_text(runs, s->n_runs),
             size_text(size, (double)s->best.file_bytes));
    svg_text(c->to, LEFT, 86, "", "one error for all: %.4g, with filters of %s",
             s->uniform.reads, size_text(uniform, (double)s->uniform.file_bytes));
    fprintf(c->to, "<circle cx=\"%d\" cy=\"100\" r=\"4\" class=\"bad\"/>\n", LEFT + 4);
    svg_text(c->to, LEFT + 16, 104, "", "no filter");
}

static void draw(const struct chart *c, const struct options *o)
{
    fprintf(c->to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
            "width=\"%d\" height=\"%d\" role=\"img\">\n<title>tamis plan</title>\n%s"
            "<rect x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%d\" rx=\"8\" "
            "class=\"ground\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT, svg_style, WIDTH - 1, HEIGHT - 1);
    draw_legend(c, o);
    draw_grid(c);
    draw_uniform(c);
    draw_points(c);
    fputs("</svg>\n", c->to);
}

int plan_picture(const struct options *o, const struct store_plan *p)
{
    struct chart c = {.plan = p};
    char *bytes = NULL;
    size_t n = 0;
    int status;

    c.to = need(open_memstream(&bytes, &n));
    find_axes(&c);
    draw(&c, o);
    need(fclose(c.to) == 0 ? bytes : NULL);
    status = replace_file(o->svg, bytes, n);
    free(bytes);
    return status;
}

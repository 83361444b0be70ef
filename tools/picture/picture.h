/* The picture that `tamis stat --svg` draws: what of a store is in it, and how it is
 * written. One banner per source file. */
#ifndef TAMIS_PICTURE_H
#define TAMIS_PICTURE_H

#include "../tool.h"

/* ==== store.c: what is drawn =================================================== */

/* A segment, or several of the smallest together. Of those whose filter does not open
 * only size and age are known. */
struct column {
    const uint8_t *name; /* of the first */
    size_t name_bytes;
    uint64_t n, n_unreadable, n_over;
    uint32_t rank;
    uint64_t bytes, length, keys, bits, bits_set; /* bytes of the disk; of the files */
    double lowest, highest;                       /* expected error / target */
    double error, target;                         /* of the first */
    double created;                               /* mean */
};
struct picture {
    char *store, *what; /* title, and the line below */
    struct column *columns;
    size_t n;
    uint64_t bytes; /* of all of them */
    uint64_t n_over, n_unreadable, n_grouped;
    double oldest, newest; /* microseconds since 1970 */
    double lowest, highest;
};
int store_picture(struct tamis_snapshot *snapshot, const struct options *o);

/* ==== draw.c: as SVG ====================================================== */

/* So many columns of pixels are for the segments, and one is at least so wide. */
enum { PICTURE_WIDTH = 872, COLUMN_WIDTH = 4 };
enum {
    WIDTH = 960,
    HEIGHT = 580,
    LEFT = 64,
    RIGHT = LEFT + PICTURE_WIDTH,
    TOP = 136, /* of the panels */
    FLOOR = 356,
    ERROR_TOP = 412,
    ERROR_FLOOR = 512
};
void picture_draw(FILE *to, const struct picture *p);

/* ==== column.c: a segment ================================================= */

/* The error panel is logarithmic: powers of two of the target. */
struct scale {
    int low, high, step;
};
double picture_error_y(struct scale s, double ratio);
/* Where on the scale of ages, 0 oldest to 1 newest, what is so many microseconds older
 * than the newest segment. Logarithmic: what is new matters most. */
double picture_age(const struct picture *p, double age);
/* #rrggbb, by age; and as stops of a gradient. */
void picture_colour(FILE *to, const struct picture *p, double created);
void picture_ages(FILE *to);
void picture_column(FILE *to, const struct picture *p, const struct column *c,
                    struct scale s, double x, double width);

/* ==== svg.c: texts of XML, and files ============================================== */

/* <style>: of texts and their classes, the ground, the grid and axes. */
extern const char svg_style[];
void xml_text(FILE *to, const char *escaped);
/* <text>, of which what is formatted is escaped. */
void svg_text(FILE *to, double x, double y, const char *attributes, const char *format,
              ...) __attribute__((format(printf, 5, 6)));
/* 1,234,567 */
const char *count_text(char text[TEXT_BYTES], uint64_t n);
/* Is the --svg file none of what the picture is of: the store's, or the list, "-" on
 * standard input? NULL: there is none. If it is: a usage error. */
void check_picture(const struct options *o, const char *store, const char *list);
/* Puts a whole file in the place of `path`, or leaves it as it is; "-" is standard
 * output. Complains; returns the status. */
int replace_file(const char *path, const char *bytes, size_t n);

#endif

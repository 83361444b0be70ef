/* The picture of a store: its parts and their places. One banner per source file. */
#ifndef TAMIS_PICTURE_INSIDE_H
#define TAMIS_PICTURE_INSIDE_H

#include "../output/output.h"
#include "picture.h"
#include "svg.h"

/* ==== store.c: from a snapshot to a picture ====================================== */

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

/* ==== draw.c: as SVG ============================================================= */

/* A column is at least so wide. */
enum { COLUMN_WIDTH = 4 };
/* Below TOP: the ends of the two panels. */
enum { FLOOR = 356, ERROR_TOP = 412, ERROR_FLOOR = 512 };
void picture_draw(FILE *to, const struct picture *p);

/* ==== column.c: a segment ======================================================== */

/* The error panel is logarithmic: powers of two of the target. */
struct scale {
    int low, high, step;
};
double picture_error_y(struct scale s, double ratio);
/* The place on the scale of ages, 0 oldest to 1 newest, of a segment made `age`
 * microseconds before the newest. Logarithmic: recent ages matter most. */
double picture_age(const struct picture *p, double age);
/* #rrggbb, by age; and as stops of a gradient. */
enum { COLOUR_BYTES = 8 };
const char *picture_colour(char text[COLOUR_BYTES], const struct picture *p,
                           double created);
void picture_ages(FILE *to);
void picture_column(FILE *to, const struct picture *p, const struct column *c,
                    struct scale s, double x, double width);

#endif

/* The picture of `tamis stat --svg`, how any picture comes into its file, and the tools
 * to draw. One banner per source file. */
#ifndef TAMIS_PICTURE_H
#define TAMIS_PICTURE_H

#include "../talk/talk.h"

struct options;

/* ==== store.c: a store =========================================================== */

int store_picture(struct tamis_snapshot *snapshot, const struct options *o);

/* ==== file.c: files that appear whole or not at all ============================== */

/* Exits if --svg names a file of `store`, or `list` ("-": standard input). Each may be
 * NULL. */
void check_picture(const struct options *o, const char *store, const char *list);
/* A drawing to the stream replaces the file `path` in the end, or leaves it as it is;
 * "-" is standard output. Reports failures; returns the status. */
struct drawing {
    FILE *to;
    char *bytes;
    size_t n;
};
FILE *drawing_begin(struct drawing *d);
int drawing_end(struct drawing *d, const char *path);

/* ==== svg.c: size, style, texts of XML =========================================== */

/* The picture's size and margins, in pixels. */
enum { PICTURE_WIDTH = 872 };
enum { WIDTH = 960, HEIGHT = 580, LEFT = 64, RIGHT = LEFT + PICTURE_WIDTH, TOP = 136 };

/* Writes <svg>, the title, the style of all classes, and the ground. `rest`, the end of
 * the title, gets escaped. */
void svg_begin(FILE *to, const char *title, const char *rest);
void xml_text(FILE *to, const char *escaped);
/* <text>; the formatted text is escaped. */
void svg_text(FILE *to, double x, double y, const char *attributes, const char *format,
              ...) __attribute__((format(printf, 5, 6)));
/* 1,234,567 */
const char *count_text(char text[TEXT_BYTES], uint64_t n);
#define COUNT(n) count_text((char[TEXT_BYTES]){0}, n)

#endif

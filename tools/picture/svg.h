/* svg.c: shared by all pictures: size, style, texts of XML. */
#ifndef TAMIS_SVG_H
#define TAMIS_SVG_H

#include "../talk/talk.h"

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

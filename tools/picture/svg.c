/* The style of all pictures, and texts of XML. */
#include <stdarg.h>

#include "picture.h"

/* Legible on light and on dark. */
static const char style[] =
    "<style>\n"
    "text{font-family:system-ui,'DejaVu Sans',sans-serif;font-size:12px;fill:#57606a}\n"
    ".title{font-size:20px;font-weight:600;fill:#1f2328}\n"
    ".name{font-family:ui-monospace,'DejaVu Sans Mono',monospace;font-size:11px;"
    "fill:#1f2328;stroke:#eaeef2;stroke-width:3px;paint-order:stroke}\n"
    ".small{font-size:10px}"
    ".bad{fill:#d1242f}.strong{fill:#1f2328}\n"
    ".ground{fill:#ffffff;stroke:#d0d7de}.track{fill:#eaeef2}\n"
    ".grid{stroke:#d0d7de}.axis{stroke:#8c959f}.mark{fill:#57606a}\n"
    ".hatch{stroke:#8c959f}\n"
    "@media (prefers-color-scheme: dark){\n"
    "text{fill:#9aa4af}.title,.name,.strong{fill:#e6edf3}.bad{fill:#ff7b72}\n"
    ".name{stroke:#212830}"
    ".ground{fill:#0f141a;stroke:#30363d}.track{fill:#212830}\n"
    ".grid{stroke:#30363d}.axis{stroke:#6e7781}.mark{fill:#9aa4af}\n"
    ".hatch{stroke:#6e7781}}\n"
    "</style>\n";

/* After escape() there is no control character left; U+FFFE and U+FFFF are UTF-8 and no
 * characters of XML (XML 1.0, section 2.2). */
void xml_text(FILE *to, const char *escaped)
{
    for (const char *s = escaped; *s != '\0'; s++) {
        if (*s == '&')
            fputs("&amp;", to);
        else if (*s == '<')
            fputs("&lt;", to);
        else if (*s == '>')
            fputs("&gt;", to);
        else if (*s == '"')
            fputs("&quot;", to);
        else if (strncmp(s, "\xef\xbf\xbe", 3) == 0 ||
                 strncmp(s, "\xef\xbf\xbf", 3) == 0)
            fprintf(to, "\\xef\\xbf\\x%02x", (unsigned char)*(s += 2));
        else
            fputc(*s, to);
    }
}

void svg_begin(FILE *to, const char *title, const char *rest)
{
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
            "width=\"%d\" height=\"%d\" role=\"img\">\n<title>%s",
            WIDTH, HEIGHT, WIDTH, HEIGHT, title);
    xml_text(to, rest);
    fprintf(to,
            "</title>\n%s<rect x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%d\" "
            "rx=\"8\" class=\"ground\"/>\n",
            style, WIDTH - 1, HEIGHT - 1);
}

void svg_text(FILE *to, double x, double y, const char *attributes, const char *format,
              ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
    xml_text(to, text);
    fputs("</text>\n", to);
}

const char *count_text(char text[TEXT_BYTES], uint64_t n)
{
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%llu", LLU(n));
    char *at = text;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *at++ = ',';
        *at++ = digits[i];
    }
    *at = '\0';
    return text;
}

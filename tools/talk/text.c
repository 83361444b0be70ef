/* Bytes for people: escapes, hex, sizes, times. Nothing here allocates memory. */
#include <ctype.h>
#include <time.h>

#include "talk.h"

/* The C1 controls (U+0080..U+009F) steer terminals; overlong forms, surrogates and
 * what lies beyond U+10FFFF are not UTF-8. */
size_t printable(const uint8_t *s, size_t n)
{
    size_t length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0x80)
        return s[0] >= 0x20 && s[0] < 0x7f && s[0] != '\\';
    if (s[0] < 0xc2 || s[0] > 0xf4 || n < length)
        return 0;
    uint32_t code = s[0] & (0x7fU >> length);
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3fU);
    }
    if (code < 0xa0 || (length == 3 && code < 0x800) ||
        (length == 4 && code < 0x10000) || code > 0x10ffff ||
        (code >= 0xd800 && code <= 0xdfff))
        return 0;
    /* Embeddings, overrides and isolates show a name, and what follows it, in another
     * order than its bytes have. */
    if ((code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069))
        return 0;
    return length;
}

static void print_bytes(FILE *to, const void *bytes, size_t n, bool backslash)
{
    const uint8_t *s = bytes;
    size_t plain = 0; /* bytes since the last escape, written in one go */
    size_t i = 0;
    while (i < n) {
        size_t step = printable(s + i, n - i);
        if (step > 0 || (backslash && s[i] == '\\')) {
            i += step + (step == 0);
            continue;
        }
        fwrite(s + plain, 1, i - plain, to);
        fprintf(to, "\\x%02x", s[i]);
        plain = ++i;
    }
    if (n > plain)
        fwrite(s + plain, 1, n - plain, to);
}

void print_escaped(FILE *to, const void *bytes, size_t n)
{
    if (bytes == NULL)
        fputc('-', to);
    print_bytes(to, bytes, n, false);
}

/* Parts of `text` are escaped already; the library's words are not. */
void print_message(FILE *to, const char *text)
{
    print_bytes(to, text, strlen(text), true);
}

long parse_hex(const char *digits, size_t n_digits, uint8_t *out, size_t max)
{
    if (n_digits % 2 != 0 || n_digits / 2 > max)
        return -1;
    for (size_t i = 0; i < n_digits; i++)
        if (!isxdigit((unsigned char)digits[i]))
            return -1;
    for (size_t i = 0; i < n_digits; i++) { /* `out` may be where the digits are */
        int digit = digits[i] <= '9' ? digits[i] - '0' : (digits[i] | 0x20) - 'a' + 10;
        out[i / 2] = (uint8_t)(i % 2 == 0 ? digit << 4 : out[i / 2] | digit);
    }
    return (long)(n_digits / 2);
}

const char *size_text(char text[TEXT_BYTES], double n_bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    while (n_bytes >= 1024 && unit < 5) {
        n_bytes /= 1024;
        unit++;
    }
    snprintf(text, TEXT_BYTES, unit == 0 ? "%.0f %s" : "%.1f %s", n_bytes, units[unit]);
    return text;
}

const char *percent_text(char text[TEXT_BYTES], double fraction)
{
    snprintf(text, TEXT_BYTES, "%.4g%%", 100 * fraction);
    return text;
}

const char *time_text(char text[TEXT_BYTES], uint64_t microseconds)
{
    time_t seconds = (time_t)(microseconds / 1000000);
    struct tm utc;
    if (gmtime_r(&seconds, &utc) == NULL ||
        strftime(text, TEXT_BYTES, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
        snprintf(text, TEXT_BYTES, "-");
    return text;
}

const char *counted_text(char text[COUNTED_BYTES], uint64_t n, const char *noun)
{
    const char *plural = noun[strlen(noun) - 1] == 'h' ? "es" : "s";
    snprintf(text, COUNTED_BYTES, "%llu %s%s", LLU(n), noun, n == 1 ? "" : plural);
    return text;
}

const char *hex_into(char *text, const void *bytes, size_t n)
{
    const uint8_t *s = bytes;
    for (size_t i = 0; i < n; i++)
        snprintf(text + 2 * i, 3, "%02x", s[i]);
    text[2 * n] = '\0';
    return text;
}

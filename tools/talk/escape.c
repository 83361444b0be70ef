/* Texts for people in memory: bytes escaped, words for a shell. */
#include <ctype.h>

#include "talk.h"

char *escape(const void *bytes, size_t n)
{
    const uint8_t *s = bytes;
    char *text = memory_or_exit(malloc(4 * n + 1)), *at = text;
    for (size_t i = 0; i < n;) {
        size_t step = printable(s + i, n - i);
        if (step > 0) {
            memcpy(at, s + i, step);
            at += step;
            i += step;
        } else {
            at += snprintf(at, 5, "\\x%02x", s[i++]);
        }
    }
    *at = '\0';
    return text;
}

const char *escape_into(char *text, size_t room, const void *bytes, size_t n)
{
    char *whole = escape(bytes, n);
    snprintf(text, room, "%s", whole);
    free(whole);
    return text;
}

char *shell_quoted(const void *bytes, size_t n)
{
    const char *s = bytes;
    char *text = escape(bytes, n), *word = memory_or_exit(malloc(4 * strlen(text) + 4));
    char *at = word;
    bool plain = true; /* nothing but backslashes is escaped */
    for (size_t i = 0, step; i < n && plain; i += step) {
        step = s[i] == '\\' ? 1 : printable((const uint8_t *)s + i, n - i);
        plain = step > 0;
    }
    at += sprintf(at, plain ? "'" : "$'");
    for (size_t i = 0, end = plain ? n : strlen(text); i < end; i++) {
        char byte = plain ? s[i] : text[i];
        at += sprintf(at, byte != '\'' ? "%c" : plain ? "'\\''" : "\\'", byte);
    }
    strcpy(at, "'");
    free(text);
    return word;
}

char *shell_word(const void *bytes, size_t n)
{
    const char *s = bytes;
    bool plain = n > 0; /* no byte needs quotes in a shell, wherever it stands */
    for (size_t i = 0; i < n; i++)
        plain = plain && (isalnum((unsigned char)s[i]) || strchr("_-./:@%+=,", s[i]));
    return plain ? escape(bytes, n) : shell_quoted(bytes, n);
}

char *path_word(const char *path)
{
    char *operand = memory_or_exit(malloc(strlen(path) + 3)), *word;
    sprintf(operand, "%s%s", path[0] == '-' ? "./" : "", path);
    word = shell_word(operand, strlen(operand));
    free(operand);
    return word;
}

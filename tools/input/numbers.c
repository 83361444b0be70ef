/* Numbers as people write them: 65536, 10M, 1.5G, 1e7. */
#include "input.h"

/* A number as it is read: digits * 10^tens * 2^twos. */
struct number {
    uint64_t digits;
    int tens, twos;
};

static bool put_digit(struct number *x, char c)
{
    return !__builtin_mul_overflow(x->digits, UINT64_C(10), &x->digits) &&
           !__builtin_add_overflow(x->digits, (uint64_t)(c - '0'), &x->digits);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits, perhaps with a point among them. NULL: there is no digit, or too many. */
static const char *read_digits(const char *at, bool with_point, struct number *x)
{
    if (!is_digit(*at))
        return NULL;
    for (; is_digit(*at); at++)
        if (!put_digit(x, *at))
            return NULL;
    if (!with_point || at[0] != '.' || !is_digit(at[1]))
        return at;
    for (at++; is_digit(*at); at++, x->tens--)
        if (!put_digit(x, *at))
            return NULL;
    return at;
}

static const char *read_unit(const char *at, enum number_kind kind, struct number *x)
{
    static const char units[] = "kKmMgGtT";
    const char *unit = *at != '\0' ? strchr(units, *at) : NULL;
    int thousands = unit ? 1 + (int)(unit - units) / 2 : 0;
    if ((at[0] == 'e' || at[0] == 'E') && is_digit(at[1])) { /* two digits at most */
        int tens = 0;
        for (at++; is_digit(*at) && tens < 10; at++)
            tens = 10 * tens + (*at - '0');
        x->tens += tens;
        return at;
    }
    if (kind == NUMBER_BYTES)
        x->twos += 10 * thousands;
    else
        x->tens += 3 * thousands;
    return at + (unit != NULL);
}

/* False: it is not whole, or too large. */
static bool evaluate(struct number x, uint64_t *n)
{
    for (; x.tens < 0; x.tens++) {
        if (x.digits % 10 == 0)
            x.digits /= 10;
        else if (x.digits % 5 == 0 && x.twos-- > 0)
            x.digits /= 5;
        else
            return false;
    }
    for (; x.tens > 0; x.tens--)
        if (__builtin_mul_overflow(x.digits, UINT64_C(10), &x.digits))
            return false;
    for (; x.twos > 0; x.twos--)
        if (__builtin_mul_overflow(x.digits, UINT64_C(2), &x.digits))
            return false;
    *n = x.digits;
    return true;
}

bool parse_number(const char *text, enum number_kind kind, uint64_t *n)
{
    struct number x = {0};
    const char *at = read_digits(text, kind != NUMBER_PLAIN, &x);
    if (at != NULL && kind != NUMBER_PLAIN)
        at = read_unit(at, kind, &x);
    return at != NULL && *at == '\0' && evaluate(x, n);
}

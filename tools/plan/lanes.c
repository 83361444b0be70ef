/* Explains the number of lanes and words: the smallest filter for each number of lanes,
 * and the cache lines that a lookup of an absent key costs there. */
#include <math.h>

#include "../talk/talk.h"
#include "plan.h"

enum { MOST_LANES = 4, MOST_WORDS = 8, BLOCK = 64 };

double lines_of(uint32_t lanes, double error)
{
    double lane = pow(error, 1.0 / lanes), lines = 0, reached = 1;
    for (uint32_t i = 0; i < lanes; i++) {
        lines += reached;
        reached *= lane;
    }
    return lines;
}

struct shape {
    uint32_t words;
    uint64_t blocks; /* of a lane; 0: none is large enough */
};

/* The fewest blocks a lane at which these words meet the error, if below `most`. */
static uint64_t least_blocks(uint32_t lanes, uint32_t words, uint64_t keys,
                             double error, uint64_t most)
{
    uint64_t low = 0, high = most;
    if (tamis_plan_error(lanes, words, high, keys) > error)
        return 0;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (tamis_plan_error(lanes, words, middle, keys) <= error)
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* The chosen one keeps its blocks, of which other filters have as many. */
static struct shape smallest(const struct tamis_plan *chosen, uint32_t lanes,
                             double error)
{
    struct shape best = {0, UINT64_C(1) << 32};
    bool any = false;
    if (lanes == chosen->lanes)
        return (struct shape){chosen->words, chosen->n_blocks};
    for (uint32_t words = 1; words <= MOST_WORDS; words++) {
        uint64_t n = least_blocks(lanes, words, chosen->n_keys, error, best.blocks);
        if (n == 0 || (any && n == best.blocks))
            continue;
        best = (struct shape){words, n};
        any = true;
    }
    return any ? best : (struct shape){0};
}

void show_lanes(const struct tamis_plan *chosen, double error, json_t *list)
{
    if (list == NULL)
        printf(
            "\nlanes words       bits bytes  bits/key  lines an absent key touches\n");
    for (uint32_t lanes = 1; lanes <= MOST_LANES; lanes++) {
        struct shape s = smallest(chosen, lanes, error);
        uint64_t n_bytes = s.blocks * lanes * BLOCK;
        double per_key =
            chosen->n_keys ? 8 * (double)n_bytes / (double)chosen->n_keys : 0;
        bool is_chosen = lanes == chosen->lanes;
        if (s.blocks == 0)
            continue;
        /* By the error of this shape, which may be far below the one asked for. */
        double lines =
            lines_of(lanes, tamis_plan_error(lanes, s.words, s.blocks, chosen->n_keys));
        if (list != NULL)
            json_put(list, NULL,
                     json_of("lanes", json_count(lanes), "words", json_count(s.words),
                             "bits_bytes", json_count(n_bytes), "bits_per_key",
                             json_number(per_key), "lines", json_number(lines),
                             "chosen", json_boolean(is_chosen)));
        else
            printf("%5u %5u %16llu %9.3f  %.2f%s\n", lanes, s.words, LLU(n_bytes),
                   per_key, lines,
                   is_chosen ? "  the fewest lanes within 4% of the least" : "");
    }
}

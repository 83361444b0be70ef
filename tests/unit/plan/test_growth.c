/* The series of a growing filter as planned: its stages, and the error of the whole at
 * every size and target. test_error_rates measures some of them. */
#include "tests/support/support.h"

/* P_i = P (1 - r) r^i, n_i = n0 s^i (paper, section 4): the sum stays below P. */
TEST(test_growth_series)
{
    const struct tamis_growth g = {0.01, 2, 0.85, 1000};
    double sum = 0;
    for (uint32_t i = 0; i < 20; i++) {
        uint64_t capacity;
        double error;
        struct tamis_plan p;
        growth_stage(&g, i, &capacity, &error);
        assert_true(fabs(error / (0.01 * 0.15 * pow(0.85, i)) - 1) < 1e-12);
        IS(capacity, UINT64_C(1000) << i);
        OK(tamis_plan_stage(&g, i, &p));
        IS(p.n_keys, capacity);
        assert_true(p.error <= error * (1 + 1e-9));
        sum += error;
    }
    assert_true(sum < 0.01 && sum > 0.0095);
    struct tamis_plan p;
    IS(tamis_plan_stage(&g, 30, &p), TAMIS_ERR_RANGE);
    /* Steep and long series end at the bounds of the format, not beyond them. */
    const struct tamis_growth steep = {1e-8, 16, 0.5, UINT64_C(1) << 32};
    for (uint32_t i = 0; i < 30; i++) {
        uint64_t capacity;
        double error;
        growth_stage(&steep, i, &capacity, &error);
        assert_true(error >= 0x1p-40 && capacity <= UINT64_C(1) << 37);
        int err = tamis_plan_stage(&steep, i, &p);
        assert_true(err == 0 || err == TAMIS_ERR_TOO_LARGE);
    }
}

/* Asks at each quarter of a stage, until the last of 30 is full. Returns the keys. */
static uint64_t check_target(const struct tamis_growth *growth)
{
    uint64_t keys = 0;
    double missed = 1; /* the chance to hit no full stage */
    for (uint32_t i = 0; i < MAX_STAGES; i++) {
        struct tamis_plan p;
        int err = tamis_plan_stage(growth, i, &p);
        if (err == TAMIS_ERR_TOO_LARGE)
            break;
        IS(err, 0);
        for (uint64_t part = 1; part <= 4; part++) {
            double last =
                tamis_plan_error(p.lanes, p.words, p.n_blocks, p.n_keys * part / 4);
            assert_true(1 - missed * (1 - last) <= growth->error);
        }
        missed *= 1 - p.error;
        keys += p.n_keys;
    }
    return keys;
}

TEST(test_target_at_every_size)
{
    static const double targets[] = {0.5, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-6, 1e-8};
    static const struct tamis_growth growths[] = {
        {0},
        {.factor = 2, .first_capacity = 65536}, /* the defaults of older stores */
        {.factor = 2, .tightening = 0.5, .first_capacity = 20000000},
        {.factor = 1.25, .tightening = 0.95, .first_capacity = 1},
        {.factor = 1.25, .tightening = 0.5, .first_capacity = 1000},
        {.factor = 16, .tightening = 0.5, .first_capacity = 1},
        {.factor = 16, .tightening = 0.95, .first_capacity = UINT64_C(1) << 32},
    };
    for (size_t k = 0; k < N_OF(growths); k++) {
        for (size_t i = 0; i < N_OF(targets); i++) {
            struct tamis_growth g = growths[k];
            g.error = targets[i];
            uint64_t keys = check_target(&g);
            /* By default more keys than anybody has. */
            assert_true(k != 0 || keys > UINT64_C(100000000000));
        }
    }
}

/* Zero fields are completed, others are kept. */
TEST(test_default_growth)
{
    struct tamis_growth g = {0}, given = {0.001, 2, 0.9, 65536};
    IS(growth_complete(&g), 0);
    assert_true(g.error == 0.01 && g.factor == 1.9 && g.tightening == 0.85);
    IS(g.first_capacity, 50000);
    IS(growth_complete(&given), 0);
    assert_true(given.error == 0.001 && given.factor == 2 && given.tightening == 0.9);
    IS(given.first_capacity, 65536);
}

RUN_TESTS(test_dir_create, test_dir_remove)

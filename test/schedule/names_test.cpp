#include <gtest/gtest.h>

#include <adaptiveload/schedule/names.hpp>
#include <stdexcept>
#include <string>

namespace al = adaptiveload;

namespace {

TEST(Names, EveryEnumeratorIsFoundByItsName) {
  using al::name_of, al::named;
  for (const auto f : {al::cost_form::power, al::cost_form::quadratic, al::cost_form::floored_power,
                       al::cost_form::floored_quadratic, al::cost_form::floored_polynomial,
                       al::cost_form::interpolated}) {
    EXPECT_EQ(named<al::cost_form>(name_of(f)), f);
  }
  for (const auto s :
       {al::strategy::equal_tokens, al::strategy::dual_constraint, al::strategy::equal_time}) {
    EXPECT_EQ(named<al::strategy>(name_of(s)), s);
  }
  for (const auto w : {al::ranks_wait::every_step, al::ranks_wait::every_micro_batch}) {
    EXPECT_EQ(named<al::ranks_wait>(name_of(w)), w);
  }
  for (const auto d : {al::dealing::balanced, al::dealing::as_drawn}) {
    EXPECT_EQ(named<al::dealing>(name_of(d)), d);
  }
  for (const auto m : {al::gradient_mean::samples, al::gradient_mean::tokens}) {
    EXPECT_EQ(named<al::gradient_mean>(name_of(m)), m);
  }
  for (const auto b :
       {al::batch_bound::memory, al::batch_bound::compute, al::batch_bound::single_sample}) {
    EXPECT_EQ(named<al::batch_bound>(name_of(b)), b);
  }
}

TEST(Names, AnUnknownNameIsAnErrorThatListsTheNames) {
  try {
    (void)al::named<al::ranks_wait>("never");
    FAIL() << "no error";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "ranks_wait is \"never\"; allowed: \"every step\", \"every micro-batch\"");
  }
}

}  // namespace

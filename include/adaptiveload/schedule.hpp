#pragma once

// The scheduler: everything of schedule/. Needs the standard library alone.
#include <adaptiveload/schedule/batch_size.hpp>
#include <adaptiveload/schedule/bucket_plan.hpp>
#include <adaptiveload/schedule/calibration.hpp>
#include <adaptiveload/schedule/corpus.hpp>
#include <adaptiveload/schedule/cost_curve.hpp>
#include <adaptiveload/schedule/cost_fit.hpp>
#include <adaptiveload/schedule/cost_model.hpp>
#include <adaptiveload/schedule/csv.hpp>
#include <adaptiveload/schedule/csv_reader.hpp>
#include <adaptiveload/schedule/epoch_options.hpp>
#include <adaptiveload/schedule/epoch_plan.hpp>
#include <adaptiveload/schedule/load_report.hpp>
#include <adaptiveload/schedule/measurement.hpp>
#include <adaptiveload/schedule/memory_model.hpp>
#include <adaptiveload/schedule/names.hpp>
#include <adaptiveload/schedule/permutation.hpp>
#include <adaptiveload/schedule/power_law.hpp>
#include <adaptiveload/schedule/recorded_run.hpp>
#include <adaptiveload/schedule/replanning.hpp>
#include <adaptiveload/schedule/shape_benchmark.hpp>
#include <adaptiveload/schedule/shape_buckets.hpp>
#include <adaptiveload/schedule/simulate.hpp>
#include <adaptiveload/schedule/strategy.hpp>
#include <adaptiveload/schedule/tokens.hpp>
#include <adaptiveload/schedule/training_step.hpp>

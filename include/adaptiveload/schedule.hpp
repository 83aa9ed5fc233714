#pragma once

// The scheduler: everything of schedule/. Needs the standard library alone.
#include <adaptiveload/schedule/batch_size.hpp>
#include <adaptiveload/schedule/bucket_plan.hpp>
#include <adaptiveload/schedule/cost_curve.hpp>
#include <adaptiveload/schedule/cost_fit.hpp>
#include <adaptiveload/schedule/cost_model.hpp>
#include <adaptiveload/schedule/csv.hpp>
#include <adaptiveload/schedule/csv_reader.hpp>
#include <adaptiveload/schedule/load_report.hpp>
#include <adaptiveload/schedule/measurement.hpp>
#include <adaptiveload/schedule/memory_model.hpp>
#include <adaptiveload/schedule/power_law.hpp>
#include <adaptiveload/schedule/shape_benchmark.hpp>
#include <adaptiveload/schedule/tokens.hpp>

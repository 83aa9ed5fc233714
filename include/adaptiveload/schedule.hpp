#pragma once

// The scheduler: everything of schedule/. Needs the standard library alone.
#include <adaptiveload/schedule/batch_size.hpp>
#include <adaptiveload/schedule/bucket_plan.hpp>
#include <adaptiveload/schedule/load_report.hpp>
#include <adaptiveload/schedule/measurement.hpp>
#include <adaptiveload/schedule/tokens.hpp>

-- SPDX-License-Identifier: Apache-2.0
-- Sends a number of requests, compares the answers, and reports the counts as lines of a name and a number. Arguments: how many
-- requests, the file of the body that answers must have, what to say when the last has come.
local asked, answered = 0, 0
local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

function init(arguments)
  limit = tonumber(arguments[1])
  expected = io.open(arguments[2], "rb"):read("*a")
  all = arguments[3]
  changed = 0
end

-- Milliseconds until the next request.
function delay()
  asked = asked + 1
  return asked <= limit and 0 or 1e9
end

function response(status, headers, body)
  answered = answered + 1
  if body ~= expected then
    changed = changed + 1
  end
  if answered == limit then
    io.write(all, "\n")
    io.flush()
  end
end

local function report(name, number)
  io.write(string.format("counted %s %.0f\n", name, number))
end

function done(summary, latency)
  report("requests", summary.requests)
  report("bytes", summary.bytes)
  for kind, times in pairs(summary.errors) do
    report(kind, times)
  end
  for _, thread in ipairs(threads) do
    report("changed", thread:get("changed"))
  end
  report("mean", latency.mean)
  report("median", latency:percentile(50))
  report("p99", latency:percentile(99))
  report("longest", latency.max)
end

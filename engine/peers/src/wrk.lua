-- SPDX-License-Identifier: Apache-2.0
-- Asks so many times and no more, compares what comes, and tells all as lines of a name and a number. Arguments: how many
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

local function tell(name, number)
  io.write(string.format("told %s %.0f\n", name, number))
end

function done(summary, latency)
  tell("requests", summary.requests)
  tell("bytes", summary.bytes)
  for kind, times in pairs(summary.errors) do
    tell(kind, times)
  end
  for _, thread in ipairs(threads) do
    tell("changed", thread:get("changed"))
  end
  tell("mean", latency.mean)
  tell("median", latency:percentile(50))
  tell("p99", latency:percentile(99))
  tell("longest", latency.max)
end

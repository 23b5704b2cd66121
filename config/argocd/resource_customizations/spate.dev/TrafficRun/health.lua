-- SPDX-License-Identifier: Apache-2.0
-- What came of the run? Degraded if it failed or is not valid, Progressing until it has ended; a run without a duration is Healthy while it
-- sends.
local status = obj.status or {}
if status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "the operator has not seen this generation yet"}
end

local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end

local function is(kind, value)
  return conditions[kind] ~= nil and conditions[kind].status == (value or "True")
end

local function text(kind)
  local condition = conditions[kind] or {}
  local message = condition.reason or ("no condition " .. kind)
  if (condition.message or "") ~= "" then
    message = message .. ": " .. condition.message
  end
  return message
end

if is("Stalled") then
  return {status = "Degraded", message = text("Stalled")}
elseif is("Complete") then
  if is("Valid", "False") then
    return {status = "Degraded", message = text("Valid")}
  elseif is("Passed", "False") then
    return {status = "Degraded", message = text("Passed")}
  end
  return {status = "Healthy", message = text("Passed")}
elseif status.paused and is("Running") then
  return {status = "Suspended", message = "the run is paused"}
elseif is("Reconciling") then
  return {status = "Progressing", message = text("Reconciling")}
elseif is("Ready") then
  return {status = "Healthy", message = text("Ready")}
end
return {status = "Progressing", message = text("Ready")}

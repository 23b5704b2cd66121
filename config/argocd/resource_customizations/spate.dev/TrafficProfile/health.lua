-- SPDX-License-Identifier: Apache-2.0
-- Is what the profile describes under way, or what came of its last run? Degraded if the profile must be changed, or if its last run failed
-- or is not valid; Progressing until a run has ended; a run without a duration is Healthy while it sends, and so is a profile that waits
-- for somebody to create a run.
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

local ready = conditions.Ready or {}
if is("Stalled") then
  return {status = "Degraded", message = text("Stalled")}
elseif ready.reason == "Suspended" then
  return {status = "Suspended", message = text("Ready")}
elseif obj.spec.paused and is("Running") then
  return {status = "Suspended", message = "spec.paused is true"}
elseif is("Reconciling") then
  return {status = "Progressing", message = text("Reconciling")}
elseif is("Complete") and is("Valid", "False") then
  return {status = "Degraded", message = text("Valid")}
elseif is("Complete") and is("Passed", "False") then
  return {status = "Degraded", message = text("Passed")}
elseif is("Ready") then
  return {status = "Healthy", message = text("Ready")}
end
return {status = "Progressing", message = text("Ready")}

-- SPDX-License-Identifier: Apache-2.0
-- Can the generator execute runs? Suspended if that is specified, Degraded if nothing helps but a change of an object.
local status = obj.status or {}
if status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "the operator has not seen this generation yet"}
end

local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end

local function is(kind)
  return conditions[kind] ~= nil and conditions[kind].status == "True"
end

local ready = conditions.Ready or {}
local message = ready.reason or "no condition Ready"
if (ready.message or "") ~= "" then
  message = message .. ": " .. ready.message
end

if is("Stalled") then
  return {status = "Degraded", message = message}
elseif is("Reconciling") then
  return {status = "Progressing", message = message}
elseif ready.reason == "Suspended" then
  return {status = "Suspended", message = message}
elseif is("Ready") then
  return {status = "Healthy", message = message}
end
return {status = "Progressing", message = message}

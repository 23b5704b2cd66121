-- SPDX-License-Identifier: Apache-2.0
-- May a reader connect? The spec cannot be changed, so the status has no generation.
local conditions = {}
for _, condition in ipairs((obj.status or {}).conditions or {}) do
  conditions[condition.type] = condition
end

local function is(kind)
  return conditions[kind] ~= nil and conditions[kind].status == "True"
end

local ready = conditions.Ready
if ready == nil then
  return {status = "Progressing", message = "the operator has not seen this object yet"}
end
local message = ready.reason
if (ready.message or "") ~= "" then
  message = message .. ": " .. ready.message
end

if is("Stalled") then
  return {status = "Degraded", message = message}
elseif is("Ready") then
  return {status = "Healthy", message = message}
end
return {status = "Progressing", message = message}

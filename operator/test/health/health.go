// SPDX-License-Identifier: Apache-2.0

// Package health computes the health of objects as Argo CD and Flux do: by the scripts of config/argocd, and by kstatus.
package health

// This file answers: what do Argo CD and Flux say of an object?

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Health is what Argo CD shows of an object.
type Health struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

// limit is the time that Argo CD gives a script.
const limit = time.Second

// Argo runs a health check of Argo CD on an object, with the libraries that Argo CD opens for checks of argocd-cm: base and table.
func Argo(script string, object *unstructured.Unstructured) (Health, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return Health{}, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	state.SetContext(ctx)
	state.SetGlobal("obj", value(state, object.Object))
	if err := state.DoString(script); err != nil {
		return Health{}, err
	}
	result, is := state.Get(-1).(*lua.LTable)
	if !is {
		return Health{}, fmt.Errorf("the script returns %s, not a table", state.Get(-1).Type())
	}
	found := Health{Status: lua.LVAsString(result.RawGetString("status")), Message: lua.LVAsString(result.RawGetString("message"))}
	switch found.Status {
	case "Healthy", "Progressing", "Degraded", "Suspended":
		return found, nil
	}
	return found, fmt.Errorf("%q is no health", found.Status)
}

// value converts a value of an object.
func value(state *lua.LState, from any) lua.LValue {
	switch v := from.(type) {
	case bool:
		return lua.LBool(v)
	case string:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	case []any:
		list := state.CreateTable(len(v), 0)
		for _, item := range v {
			list.Append(value(state, item))
		}
		return list
	case map[string]any:
		table := state.CreateTable(0, len(v))
		for key, item := range v {
			table.RawSetString(key, value(state, item))
		}
		return table
	}
	return lua.LNil
}

// Flux computes the status of an object as Flux does (kstatus).
func Flux(object *unstructured.Unstructured) (string, error) {
	result, err := status.Compute(object)
	if err != nil {
		return "", err
	}
	return result.Status.String(), nil
}

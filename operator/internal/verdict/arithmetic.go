// SPDX-License-Identifier: Apache-2.0

package verdict

// This file answers: what can be multiplied and divided in expressions? CEL has both for two numbers of one type only. Here times can be
// scaled and their ratio taken, and integers scaled by fractions, as in `result.streams["a"].latency.p99 < baseline.streams["a"].latency.p99 * 1.05`.

import (
	"math"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// library returns the standard library, with more overloads of `*` and `/`. A function with one implementation for all of its overloads, as
// these are, cannot be extended: they are declared again.
func library() []cel.EnvOption {
	standard := env.NewLibrarySubset().AddExcludedFunctions(env.NewFunction(operators.Multiply), env.NewFunction(operators.Divide))
	of := func(id string, left, right, out *cel.Type) cel.FunctionOpt {
		return cel.Overload(id, []*cel.Type{left, right}, out)
	}
	return []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(standard)),
		cel.Function(operators.Multiply,
			of(overloads.MultiplyDouble, cel.DoubleType, cel.DoubleType, cel.DoubleType),
			of(overloads.MultiplyInt64, cel.IntType, cel.IntType, cel.IntType),
			of(overloads.MultiplyUint64, cel.UintType, cel.UintType, cel.UintType),
			of("multiply_int64_double", cel.IntType, cel.DoubleType, cel.DoubleType),
			of("multiply_double_int64", cel.DoubleType, cel.IntType, cel.DoubleType),
			of("multiply_duration_double", cel.DurationType, cel.DoubleType, cel.DurationType),
			of("multiply_double_duration", cel.DoubleType, cel.DurationType, cel.DurationType),
			of("multiply_duration_int64", cel.DurationType, cel.IntType, cel.DurationType),
			of("multiply_int64_duration", cel.IntType, cel.DurationType, cel.DurationType),
			cel.SingletonBinaryBinding(multiply)),
		cel.Function(operators.Divide,
			of(overloads.DivideDouble, cel.DoubleType, cel.DoubleType, cel.DoubleType),
			of(overloads.DivideInt64, cel.IntType, cel.IntType, cel.IntType),
			of(overloads.DivideUint64, cel.UintType, cel.UintType, cel.UintType),
			of("divide_int64_double", cel.IntType, cel.DoubleType, cel.DoubleType),
			of("divide_double_int64", cel.DoubleType, cel.IntType, cel.DoubleType),
			of("divide_duration_double", cel.DurationType, cel.DoubleType, cel.DurationType),
			of("divide_duration_int64", cel.DurationType, cel.IntType, cel.DurationType),
			of("divide_duration_duration", cel.DurationType, cel.DurationType, cel.DoubleType),
			cel.SingletonBinaryBinding(divide)),
	}
}

func multiply(left, right ref.Val) ref.Val {
	if d, is := right.(types.Duration); is {
		left, right = d, left
	}
	if d, is := left.(types.Duration); is {
		if by, known := number(right); known {
			return nanoseconds(float64(d.Duration) * by)
		}
		return types.MaybeNoSuchOverloadErr(right)
	}
	left, right = alike(left, right)
	if left, can := left.(traits.Multiplier); can {
		return left.Multiply(right)
	}
	return types.MaybeNoSuchOverloadErr(left)
}

func divide(left, right ref.Val) ref.Val {
	if d, is := left.(types.Duration); is {
		by, known := number(right)
		other, both := right.(types.Duration)
		switch {
		case both && other.Duration == 0 || known && by == 0:
			return types.NewErr("division by zero")
		case both:
			return types.Double(float64(d.Duration) / float64(other.Duration))
		case known:
			return nanoseconds(float64(d.Duration) / by)
		}
		return types.MaybeNoSuchOverloadErr(right)
	}
	left, right = alike(left, right)
	if left, can := left.(traits.Divider); can {
		return left.Divide(right)
	}
	return types.MaybeNoSuchOverloadErr(left)
}

// number returns an integer or a double as a double; not known for other values.
func number(v ref.Val) (value float64, known bool) {
	switch x := v.(type) {
	case types.Int:
		return float64(x), true
	case types.Double:
		return float64(x), true
	}
	return 0, false
}

// alike returns two doubles for an integer and a double, and other values as they are.
func alike(left, right ref.Val) (ref.Val, ref.Val) {
	if left.Type() == right.Type() {
		return left, right
	}
	l, first := number(left)
	r, second := number(right)
	if first && second {
		return types.Double(l), types.Double(r)
	}
	return left, right
}

// nanoseconds returns a time, rounded to nanoseconds.
func nanoseconds(ns float64) ref.Val {
	if ns = math.Round(ns); math.IsNaN(ns) || math.Abs(ns) >= math.MaxInt64 {
		return types.NewErr("duration overflow")
	}
	return types.Duration{Duration: time.Duration(ns)}
}

// SPDX-License-Identifier: Apache-2.0
//! What a refused call answers: a gRPC status, with google.rpc.BadRequest where fields are wrong.
use crate::plan::Violations;
use spate_stateful::FieldPath;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

/// Violations in one status: it travels in HTTP/2 trailers, whose size peers limit.
const MAX_VIOLATIONS: usize = 20;

/// Why a call was refused.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Fields of the request or its plan are wrong.
    #[error(transparent)]
    Invalid(#[from] Violations),
    /// No run has this id.
    #[error("run {0:?} is not known to this engine; Prepare it first")]
    UnknownRun(String),
    /// The id is taken by another plan.
    #[error("run {0:?} is known with another plan; use another run id, or Remove that run first")]
    OtherPlan(String),
    /// Not in this state.
    #[error("{0}")]
    State(String),
    /// Too little memory, queues or room for runs.
    #[error("{0}")]
    Exhausted(String),
    /// The engine is ending.
    #[error("the engine is shutting down and takes no more runs")]
    ShuttingDown,
}

impl Refusal {
    /// A single wrong field.
    pub fn field(field: impl Into<FieldPath>, description: impl Into<String>) -> Self {
        Self::Invalid(Violations::one(field, description))
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::Invalid(wrong) => return bad_request(wrong),
            Refusal::UnknownRun(_) => Code::NotFound,
            Refusal::OtherPlan(_) => Code::AlreadyExists,
            Refusal::State(_) => Code::FailedPrecondition,
            Refusal::Exhausted(_) => Code::ResourceExhausted,
            Refusal::ShuttingDown => Code::Unavailable,
        };
        Status::new(code, refusal.to_string())
    }
}

fn bad_request(wrong: &Violations) -> Status {
    let shown = &wrong.0[..wrong.0.len().min(MAX_VIOLATIONS)];
    let mut message: Vec<String> = shown.iter().take(3).map(ToString::to_string).collect();
    if wrong.0.len() > message.len() {
        message.push(format!("and {} more", wrong.0.len() - message.len()));
    }
    let fields = shown.iter().map(|v| FieldViolation::new(v.field.to_string(), v.description.clone()));
    let details = ErrorDetails::with_bad_request(fields.collect::<Vec<_>>());
    Status::with_error_details(Code::InvalidArgument, message.join("; "), details)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_reported_once() {
        let refused = anyhow::Error::from(Refusal::field("run_tag", "0; must be 1..65535"));
        assert_eq!(format!("{refused:#}"), "run_tag: 0; must be 1..65535");
    }
}

// SPDX-License-Identifier: Apache-2.0
//! In which format is a page sent? In that which the client prefers by its header Accept (RFC 9110 section 12.5.1).

/// Formats of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics text, whatever is requested but for the other.
    OpenMetrics,
    /// Prometheus' protobuf, to clients that name it and like it better than text. Histograms have native buckets in it.
    Protobuf,
}

const PROTOBUF: &str = "application/vnd.google.protobuf";
const PROTOBUF_PARAMETERS: [(&str, &str); 2] =
    [("proto", "io.prometheus.client.MetricFamily"), ("encoding", "delimited")];

impl Format {
    /// All of them, by their numbers.
    pub(super) const COUNT: usize = 2;

    /// Its media type.
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// The one that the values of a request's Accept headers prefer. What is malformed in them counts for nothing.
    pub(super) fn preferred<'a>(accept: impl Iterator<Item = &'a str>) -> Self {
        let ranges: Vec<_> = accept.flat_map(|value| value.split(',')).filter_map(Range::parse).collect();
        let protobuf = ranges.iter().filter(|range| range.is_protobuf()).map(|range| range.quality).fold(0.0, f32::max);
        // A client that takes the older text format gets OpenMetrics, as before there were two formats.
        let text = ["application/openmetrics-text", "text/plain"].map(|media_type| quality(&ranges, media_type));
        if protobuf > text[0].max(text[1]) { Self::Protobuf } else { Self::OpenMetrics }
    }
}

/// A media range of the header.
struct Range<'a> {
    media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

impl<'a> Range<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';');
        let media_type = parts.next()?.trim();
        let mut range = Self { media_type, parameters: Vec::new(), quality: 1.0 };
        for part in parts {
            let (name, value) = part.split_once('=')?;
            let (name, value) = (name.trim(), value.trim().trim_matches('"'));
            if name.eq_ignore_ascii_case("q") {
                range.quality = value.parse::<f32>().ok().filter(|quality| (0.0..=1.0).contains(quality))?;
            } else {
                range.parameters.push((name, value));
            }
        }
        Some(range)
    }

    fn is_protobuf(&self) -> bool {
        let has = |(name, value): &(&str, &str)| {
            self.parameters.iter().any(|(n, v)| n.eq_ignore_ascii_case(name) && v.eq_ignore_ascii_case(value))
        };
        self.media_type.eq_ignore_ascii_case(PROTOBUF) && PROTOBUF_PARAMETERS.iter().all(has)
    }
}

/// The quality of a media type: that of the most specific range that includes it, whatever its parameters; 0 without one.
fn quality(ranges: &[Range<'_>], media_type: &str) -> f32 {
    let (main, _) = media_type.split_once('/').unwrap_or((media_type, ""));
    for includes in [media_type, &format!("{main}/*"), "*/*"] {
        let some = ranges.iter().filter(|range| range.media_type.eq_ignore_ascii_case(includes));
        if let Some(best) = some.map(|range| range.quality).reduce(f32::max) {
            return best;
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn who_prefers_protobuf_gets_it_and_everybody_else_text() {
        const PROTO: &str =
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        // What Prometheus 3.12 sends, without and with scrape_native_histograms, and 2.55 with native histograms.
        let text = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,\
                    text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let native = format!("{PROTO};q=0.6,{}", text.replace("q=0.6", "q=0.55"));
        let older =
            format!("{PROTO};q=0.5,application/openmetrics-text;version=1.0.0;q=0.4,text/plain;q=0.2,*/*;q=0.1");
        let cases: &[(&str, Format)] = &[
            (text, Format::OpenMetrics),
            (&native, Format::Protobuf),
            (&older, Format::Protobuf),
            (PROTO, Format::Protobuf),
            (&PROTO.replace(';', " ; ").replace("delimited", "\"delimited\"").to_uppercase(), Format::Protobuf),
            (&format!("text/plain;q=0.3, {PROTO};q=0.7"), Format::Protobuf),
            (&format!("{PROTO};q=0.3, text/plain;q=0.7"), Format::OpenMetrics),
            // The more specific range counts, whatever the others say.
            (&format!("{PROTO};q=0.5, */*;q=0.9, application/openmetrics-text;q=0.1, text/*;q=0"), Format::Protobuf),
            (&format!("{PROTO};q=0.5, text/*"), Format::OpenMetrics),
            // Without a preference.
            (&format!("{PROTO}, */*"), Format::OpenMetrics),
            (&format!("{PROTO};q=0"), Format::OpenMetrics),
            ("", Format::OpenMetrics),
            ("*/*", Format::OpenMetrics),
            ("text/html, application/*;q=0.9", Format::OpenMetrics),
            // Other messages, and other encodings.
            ("application/vnd.google.protobuf", Format::OpenMetrics),
            (&PROTO.replace("delimited", "text"), Format::OpenMetrics),
            (&PROTO.replace("MetricFamily", "Other"), Format::OpenMetrics),
            // Malformed ranges.
            (&format!("{PROTO};q=2"), Format::OpenMetrics),
            (&format!("{PROTO};q=NaN"), Format::OpenMetrics),
            (&format!("{PROTO};q"), Format::OpenMetrics),
            (&format!(";;=,,q=, {PROTO}"), Format::Protobuf),
        ];
        for (accept, wanted) in cases {
            assert_eq!(Format::preferred([*accept].into_iter()), *wanted, "{accept}");
        }
        assert_eq!(Format::preferred([].into_iter()), Format::OpenMetrics);
        assert_eq!(Format::preferred(["text/plain;q=0.1", PROTO].into_iter()), Format::Protobuf);
    }

    proptest! {
        #[test]
        fn no_header_is_a_reason_to_panic(
            any in ".*", near in prop::collection::vec("[a-z*/;=,.\" ]{0,4}|q=[0-9.eNna+-]{0,6}|application/vnd.google.protobuf|\\*/\\*", 0..20),
        ) {
            let near = near.concat();
            // Neither names the message.
            prop_assert_eq!(Format::preferred([any.as_str(), &near].into_iter()), Format::OpenMetrics);
        }
    }
}

//! Draws the timeline of a run. The timeline has a bar for each job, in as many lanes as there were
//! concurrent jobs, and a curve of the bytes read per second.
//!
//! The timeline is an SVG drawing in the page. The table of jobs contains the same values as
//! numbers.

use super::super::{JobState, JobSummary, Summary};
use super::class;
use super::markup::{escape, plural};
use crate::human::{bytes, seconds};
use std::fmt::Write;

/// Width of the drawing in SVG units. The page scales the drawing.
const WIDTH: f64 = 1000.0;
const LANE: f64 = 14.0;
const GAP: f64 = 2.0;
/// Maximum total height of the lanes. With hundreds of concurrent jobs, each lane is thinner.
const MAX_HEIGHT: f64 = 480.0;
const CURVE: f64 = 90.0;
/// Number of points in the curve.
const STEPS: usize = 100;

/// A job that ran, with its start and end.
struct JobSpan<'a> {
    job: &'a JobSummary,
    start: f64,
    end: f64,
}

pub(super) fn section(page: &mut String, summary: &Summary) {
    let spans = spans(summary);
    let Some(last) = spans.iter().map(|span| span.end).reduce(f64::max) else { return };
    let total = summary.seconds.max(last).max(1e-3);
    let (lanes, most) = lanes(&spans);
    let step = (MAX_HEIGHT / most as f64).clamp(1.0, LANE + GAP);
    let thick = if step > 2.0 * GAP { step - GAP } else { step };
    let height = step * most as f64;
    let _ = write!(
        page,
        "<section aria-labelledby=\"time\">\n<h2 id=\"time\">Timeline</h2>\n<figure>\n\
         <svg viewBox=\"0 0 {WIDTH} {:.1}\" role=\"img\" aria-labelledby=\"time-title\" preserveAspectRatio=\"none\" \
         class=\"lanes\" style=\"height:{height:.0}px\">\n\
         <title id=\"time-title\">{} in {}, at most {most} at once</title>\n",
        height,
        plural(spans.len() as u64, "job"),
        seconds(total),
    );
    for (span, lane) in spans.iter().zip(&lanes) {
        let x = span.start / total * WIDTH;
        let width = ((span.end - span.start) / total * WIDTH).max(0.7);
        let _ = writeln!(
            page,
            "<rect class=\"{}\" x=\"{x:.2}\" y=\"{:.2}\" width=\"{width:.2}\" height=\"{thick:.2}\">\
             <title>{}: {}, {}</title></rect>",
            class(span.job.state),
            *lane as f64 * step,
            escape(&span.job.name),
            span.job.state.word(),
            seconds(span.job.seconds),
        );
    }
    page.push_str("</svg>\n");
    axis(page, total);
    page.push_str(
        "<figcaption>Each bar is a job. Bars in different rows overlap in time.</figcaption>\n</figure>\n",
    );
    curve(page, &spans, total);
    page.push_str("</section>\n");
}

/// Returns the jobs that ran, sorted by start time.
fn spans(summary: &Summary) -> Vec<JobSpan<'_>> {
    let ran =
        |job: &&JobSummary| matches!(job.state, JobState::Done | JobState::Failed | JobState::Cancelled);
    let mut spans: Vec<JobSpan<'_>> = summary.jobs.iter().filter(ran).filter_map(JobSpan::of).collect();
    spans.sort_by(|a, b| a.start.total_cmp(&b.start));
    spans
}

impl<'a> JobSpan<'a> {
    fn of(job: &'a JobSummary) -> Option<Self> {
        let start = job.started.filter(|start| start.is_finite() && *start >= 0.0)?;
        let took = if job.seconds.is_finite() { job.seconds.max(0.0) } else { 0.0 };
        Some(Self { job, start, end: start + took })
    }
}

/// Returns the first free lane for each span, and the number of lanes.
fn lanes(spans: &[JobSpan<'_>]) -> (Vec<usize>, usize) {
    let mut free_at: Vec<f64> = Vec::new();
    let mut lanes = Vec::with_capacity(spans.len());
    for span in spans {
        let lane = free_at.iter().position(|&end| end <= span.start).unwrap_or(free_at.len());
        if lane == free_at.len() {
            free_at.push(0.0);
        }
        free_at[lane] = span.end;
        lanes.push(lane);
    }
    (lanes, free_at.len().max(1))
}

/// Draws the time axis below the lanes.
fn axis(page: &mut String, total: f64) {
    let step = tick(total);
    page.push_str("<div class=\"axis\" aria-hidden=\"true\">");
    let mut at = 0.0;
    while at <= total * 0.98 {
        let _ = write!(page, "<span style=\"left:{:.2}%\">{}</span>", at / total * 100.0, mark(at, step));
        at += step;
    }
    page.push_str("</div>\n");
}

/// Returns a distance between tick marks that gives about six marks, all at round times.
fn tick(total: f64) -> f64 {
    const ROUND: [f64; 14] =
        [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0];
    let wanted = total / 6.0;
    if wanted < 1.0 {
        let power = 10_f64.powf(wanted.log10().floor());
        return [1.0, 2.0, 5.0, 10.0].into_iter().map(|x| x * power).find(|x| *x >= wanted).unwrap_or(1.0);
    }
    let hours = (wanted / 7200.0).ceil() * 7200.0;
    ROUND.into_iter().find(|round| *round >= wanted).unwrap_or(hours)
}

fn mark(at: f64, step: f64) -> String {
    if at == 0.0 {
        return "0".to_owned();
    }
    if step < 1.0 {
        return format!("{} s", (at * 1000.0).round() / 1000.0);
    }
    let at = at.round();
    match (at / 3600.0, at / 60.0) {
        (hours, _) if step >= 3600.0 => format!("{hours} h"),
        (hours, minutes) if hours >= 1.0 => format!("{} h {:02}", hours.floor(), (minutes % 60.0).floor()),
        (_, minutes) if step >= 60.0 => format!("{minutes} min"),
        (_, minutes) if minutes >= 1.0 => format!("{}:{:02}", minutes.floor(), at % 60.0),
        _ => format!("{at} s"),
    }
}

/// Draws a curve of the number of bytes read in each time step. The curve assumes that each job
/// reads its bytes at a constant rate.
fn curve(page: &mut String, spans: &[JobSpan<'_>], total: f64) {
    let width = total / STEPS as f64;
    let mut steps = [0.0_f64; STEPS];
    for span in spans.iter().filter(|span| span.job.state == JobState::Done) {
        let took = (span.end - span.start).max(1e-6);
        for (step, sum) in steps.iter_mut().enumerate() {
            let (from, to) = (step as f64 * width, (step + 1) as f64 * width);
            let shared = (span.end.max(span.start + 1e-6).min(to) - span.start.max(from)).max(0.0);
            *sum += span.job.bytes_in as f64 * shared / took;
        }
    }
    let rates = steps.map(|moved| moved / width);
    let most = rates.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return;
    }
    let mut path = format!("M0 {CURVE:.1}");
    for (step, rate) in rates.iter().enumerate() {
        let y = CURVE - rate / most * (CURVE - 2.0);
        let x = |step: usize| step as f64 / STEPS as f64 * WIDTH;
        let _ = write!(path, "L{:.1} {y:.1}L{:.1} {y:.1}", x(step), x(step + 1));
    }
    let _ = write!(path, "L{WIDTH} {CURVE:.1}Z");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate for display only")]
    let most = bytes(most as u64);
    let _ = write!(
        page,
        "<figure>\n<p class=\"scale\" aria-hidden=\"true\">{most}/s</p>\n\
         <svg viewBox=\"0 0 {WIDTH} {CURVE}\" role=\"img\" aria-labelledby=\"rate-title\" preserveAspectRatio=\"none\" \
         class=\"rate\" style=\"height:{CURVE}px\">\n\
         <title id=\"rate-title\">Bytes read per second over the same time, at most {most}</title>\n\
         <path d=\"{path}\"/>\n</svg>\n"
    );
    axis(page, total);
    page.push_str(
        "<figcaption>Bytes read per second. A job's bytes are spread evenly over its duration.</figcaption>\n</figure>\n",
    );
}

#include "mainspring/lab/roofline_svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "mainspring/io/html.h"
#include "mainspring/lab/profile_text.h"

namespace mainspring {
namespace {

constexpr double kWidth = 900;
constexpr double kHeight = 460;
constexpr double kLeft = 90;
constexpr double kRight = 20;
constexpr double kTop = 24;
constexpr double kBottom = 48;

template <typename... Args>
std::string format(const char* text, Args... args) {
  char buffer[512];
  std::snprintf(buffer, sizeof(buffer), text, args...);
  return buffer;
}

bool has_place(const ProfileLine& line) {
  return line.kind == SpanKind::kOp && line.flops > 0 && line.bytes > 0 && line.own_ns > 0;
}

/// Whole decades around everything that is drawn.
struct Axes {
  double x_low = -1;
  double x_high = 3;
  double y_low = 8;
  double y_high = 12;

  explicit Axes(const Profile& profile) {
    const double ridge = std::log10(profile.ceilings.ridge());
    const double peak = std::log10(profile.ceilings.flops);
    double x0 = ridge, x1 = ridge, y0 = peak, y1 = peak;
    for (const ProfileLine& line : profile.lines) {
      if (!has_place(line)) continue;
      x0 = std::min(x0, std::log10(line.intensity()));
      x1 = std::max(x1, std::log10(line.intensity()));
      y0 = std::min(y0, std::log10(line.flops_per_s()));
      y1 = std::max(y1, std::log10(line.flops_per_s()));
    }
    x_low = std::floor(x0 - 0.2);
    x_high = std::ceil(x1 + 0.2);
    y_low = std::floor(y0 - 0.2);
    y_high = std::ceil(y1 + 0.1);
  }

  double x(double intensity_log) const {
    return kLeft + (intensity_log - x_low) / (x_high - x_low) * (kWidth - kLeft - kRight);
  }
  double y(double flops_log) const {
    return kTop + (y_high - flops_log) / (y_high - y_low) * (kHeight - kTop - kBottom);
  }
};

std::string rate_label(double decade) {
  const char* const units[] = {"", "k", "M", "G", "T", "P", "E"};
  const int unit = std::clamp(static_cast<int>(std::floor(decade / 3)), 0, 6);
  return format("%.0f %sFLOP/s", std::pow(10.0, decade - 3 * unit), units[unit]);
}

std::string grid(const Axes& axes) {
  std::string out;
  for (double d = axes.x_low; d <= axes.x_high; ++d) {
    out += format("<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>",
                  axes.x(d), axes.x(d), kTop, kHeight - kBottom);
    out += format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g</text>", axes.x(d),
                  kHeight - kBottom + 16, std::pow(10.0, d));
  }
  for (double d = axes.y_low; d <= axes.y_high; ++d) {
    out += format("<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>", kLeft,
                  kWidth - kRight, axes.y(d), axes.y(d));
    out += format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>", kLeft - 6,
                  axes.y(d) + 4, rate_label(d).c_str());
  }
  out += format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">FLOPs a byte</text>",
                (kLeft + kWidth - kRight) / 2, kHeight - 10);
  return out;
}

std::string ceilings(const Profile& profile, const Axes& axes) {
  const double ridge = std::log10(profile.ceilings.ridge());
  const double peak = std::log10(profile.ceilings.flops);
  const double bandwidth = std::log10(profile.ceilings.bandwidth);
  // FLOP/s = bandwidth * intensity: the slope leaves the picture at its left or lower side.
  const double start = std::max(axes.x_low, axes.y_low - bandwidth);
  std::string out =
      format("<line class=\"ceiling memory\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>",
             axes.x(start), axes.y(start + bandwidth), axes.x(ridge), axes.y(peak));
  out += format("<line class=\"ceiling compute\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>",
                axes.x(ridge), axes.y(peak), axes.x(axes.x_high), axes.y(peak));
  out += format(
      "<text class=\"name\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">peak %.0f GFLOP/s</text>",
      axes.x(axes.x_high), axes.y(peak) - 6, profile.ceilings.flops / 1e9);
  const double middle = (start + ridge) / 2;
  out += format(
      "<text class=\"name\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">memory %.1f GB/s</text>",
      axes.x(middle) - 8, axes.y(middle + bandwidth) - 6, profile.ceilings.bandwidth / 1e9);
  return out;
}

std::string dots(const Profile& profile, const Axes& axes) {
  std::string out;
  for (const ProfileLine& line : profile.lines) {
    if (!has_place(line)) continue;
    const double share = profile.share(line.own_ns);
    const double x = axes.x(std::log10(line.intensity()));
    const double y = axes.y(std::log10(line.flops_per_s()));
    const std::string title = html_text(line_title(line));
    out += format("<circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\">",
                  html_text(line.phase).c_str(), x, y, 3 + 26 * std::sqrt(share));
    out += "<title>" + title + ": " + percent_text(share) + " of the time, " +
           format("%.1f GFLOP/s, %.3g FLOPs a byte, ", line.flops_per_s() / 1e9, line.intensity()) +
           percent_text(of_ceiling(line, profile.ceilings)) + " of its ceiling</title></circle>";
    if (share < 0.03) continue;
    // On the side that has room for it.
    const bool is_right = x > 0.6 * kWidth;
    const double beside = (is_right ? -1 : 1) * (5 + 26 * std::sqrt(share));
    out += format("<text class=\"name\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x + beside,
                  y + 4, is_right ? "end" : "start") +
           title + "</text>";
  }
  return out;
}

}  // namespace

std::string roofline_svg(const Profile& profile) {
  const Axes axes(profile);
  return format(
             "<svg class=\"roofline\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
             "aria-label=\"Roofline: FLOP/s against FLOPs a byte\">",
             kWidth, kHeight) +
         grid(axes) + dots(profile, axes) + ceilings(profile, axes) + "</svg>";
}

}  // namespace mainspring

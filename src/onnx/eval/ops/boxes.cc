#include <algorithm>
#include <cmath>

#include "onnx/eval/groups.h"
#include "onnx/eval/ops/cast.h"
#include "onnx/eval/ops/common.h"

namespace kvik::onnx {
namespace {

struct Box {
  double x0, y0, x1, y1;
  double area() const { return (x1 - x0) * (y1 - y0); }
};

Box box_at(const std::vector<double>& boxes, int64_t i, bool by_centre) {
  const double* b = boxes.data() + i * 4;
  if (by_centre) return {b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2};
  return {std::min(b[1], b[3]), std::min(b[0], b[2]), std::max(b[1], b[3]), std::max(b[0], b[2])};
}

bool overlap_exceeds(const Box& a, const Box& b, double limit) {
  const Box common = {std::max(a.x0, b.x0), std::max(a.y0, b.y0), std::min(a.x1, b.x1), std::min(a.y1, b.y1)};
  if (common.x1 <= common.x0 || common.y1 <= common.y0) return false;
  const double all = a.area() + b.area() - common.area();
  return a.area() > 0 && b.area() > 0 && all > 0 && common.area() / all > limit;
}

Tensors non_max_suppression(const KernelCall& call) {
  const Tensor& boxes = call.input(0);   // [batch, boxes, 4]
  const Tensor& scores = call.input(1);  // [batch, classes, boxes]
  require(boxes.rank() == 3 && scores.rank() == 3 && boxes.dim(2) == 4 && boxes.dim(0) == scores.dim(0) && boxes.dim(1) == scores.dim(2),
          "boxes of shape {} do not fit scores of {}", to_string(boxes.dims()), to_string(scores.dims()));
  const int64_t most = call.has(2) ? as_int(call.input(2)) : 0;
  const double limit = call.has(3) ? as_double(call.input(3)) : 0.0;
  const bool filters = call.has(4);
  const double least = filters ? as_double(call.input(4)) : 0.0;
  const bool by_centre = call.node.int_or("center_point_box", 0) != 0;
  const std::vector<double> corners = as_doubles(boxes);
  const std::vector<double> values = as_doubles(scores);
  const int64_t n = boxes.dim(1);
  call.work.take(scores.dims(), {std::clamp<int64_t>(most, 1, std::max<int64_t>(1, n))});
  std::vector<int64_t> found;
  for (int64_t row = 0; n > 0 && row < scores.dim(0) * scores.dim(1); ++row) {
    const int64_t batch = row / scores.dim(1);
    const auto score = [&](int64_t i) { return values[static_cast<size_t>(row * n + i)]; };
    std::vector<int64_t> order;
    for (int64_t i = 0; i < n; ++i) {
      if (!std::isnan(score(i)) && (!filters || score(i) > least)) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score(a) > score(b); });
    std::vector<Box> chosen;
    for (const int64_t i : order) {
      if (static_cast<int64_t>(chosen.size()) >= most) break;
      const Box box = box_at(corners, batch * n + i, by_centre);
      if (std::any_of(chosen.begin(), chosen.end(), [&](const Box& other) { return overlap_exceeds(box, other, limit); })) continue;
      chosen.push_back(box);
      found.insert(found.end(), {batch, row % scores.dim(1), i});
    }
  }
  return {Tensor::of({static_cast<int64_t>(found.size() / 3), 3}, found)};
}

struct RoiOptions {
  int64_t height, width;  // of the result
  int64_t sampling;
  double scale;
  bool half_pixel;
  bool average;
  Work work;
};

// Four neighbours of a point in a plane, with their weights; none outside.
struct Corners {
  std::array<int64_t, 4> at = {};
  std::array<double, 4> weights = {};
};

Corners corners_of(double y, double x, int64_t height, int64_t width) {
  if (!(y >= -1.0 && y <= static_cast<double>(height) && x >= -1.0 && x <= static_cast<double>(width))) return {};
  const auto place = [](double v, int64_t n) {
    v = std::max(v, 0.0);
    const int64_t low = std::min(static_cast<int64_t>(v), n - 1);
    const bool last = low >= n - 1;
    return std::tuple(low, last ? low : low + 1, last ? 0.0 : v - static_cast<double>(low));
  };
  const auto [y0, y1, fy] = place(y, height);
  const auto [x0, x1, fx] = place(x, width);
  return {{y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1},
          {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx}};
}

int64_t samples_per_bin(const RoiOptions& options, double bin) {
  if (options.sampling > 0) return options.sampling;
  const double n = std::ceil(bin);
  require(n < 0x1p20, "a region has bins of {} elements", bin);
  return static_cast<int64_t>(std::max(n, 0.0));
}

// One region of one plane.
void pool_region(const double* plane, const Dims& sizes, const double* roi, const RoiOptions& options, double* to) {
  const double shift = options.half_pixel ? 0.5 : 0.0;
  const double x0 = roi[0] * options.scale - shift;
  const double y0 = roi[1] * options.scale - shift;
  double w = roi[2] * options.scale - shift - x0;
  double h = roi[3] * options.scale - shift - y0;
  if (!options.half_pixel) {
    w = std::max(w, 1.0);
    h = std::max(h, 1.0);
  }
  const double bin_h = h / static_cast<double>(options.height);
  const double bin_w = w / static_cast<double>(options.width);
  const int64_t rows = samples_per_bin(options, bin_h);
  const int64_t columns = samples_per_bin(options, bin_w);
  options.work.take({options.height, options.width, rows, columns});
  for (int64_t bin = 0; bin < options.height * options.width; ++bin) {
    double total = 0;
    double most = 0;
    const int64_t bin_row = bin / options.width, bin_column = bin % options.width;
    for (int64_t i = 0; i < rows * columns; ++i) {
      const int64_t row = i / columns, column = i % columns;
      const double y = y0 + (static_cast<double>(bin_row) + (static_cast<double>(row) + 0.5) / static_cast<double>(rows)) * bin_h;
      const double x = x0 + (static_cast<double>(bin_column) + (static_cast<double>(column) + 0.5) / static_cast<double>(columns)) * bin_w;
      const Corners corners = corners_of(y, x, sizes[0], sizes[1]);
      double largest = 0;
      for (size_t k = 0; k < 4; ++k) {
        const double part = corners.weights[k] * plane[corners.at[k]];
        total += part;
        largest = k == 0 ? part : std::max(largest, part);
      }
      most = i == 0 ? largest : std::max(most, largest);
    }
    to[bin] = options.average ? total / static_cast<double>(std::max<int64_t>(1, rows * columns)) : most;
  }
}

Tensors roi_align(const KernelCall& call) {
  const Tensor& x = call.input(0);
  const Tensor& rois = call.input(1);
  const std::vector<int64_t> batches = as_ints(call.input(2));
  require_rank(x, 4, "the input");
  require(rois.rank() == 2 && rois.dim(1) == 4 && rois.dim(0) == static_cast<int64_t>(batches.size()),
          "regions of shape {} were given with {} batch indices", to_string(rois.dims()), batches.size());
  const std::string_view mode = call.node.string_or("mode", "avg");
  const std::string_view absent = call.node.opset < 16 ? "output_half_pixel" : "half_pixel";
  const RoiOptions options = {call.node.int_or("output_height", 1),
                              call.node.int_or("output_width", 1),
                              call.node.int_or("sampling_ratio", 0),
                              call.node.float_or("spatial_scale", 1.0f),
                              call.node.string_or("coordinate_transformation_mode", absent) == "half_pixel",
                              mode == "avg",
                              call.work};
  require(mode == "avg" || mode == "max", "mode '{}' is unknown", mode);
  require(options.height > 0 && options.width > 0 && options.sampling < (1 << 20), "the result would be {} by {}", options.height,
          options.width);
  call.work.take({rois.dim(0), x.dim(1), options.height, options.width});
  Tensor result = new_tensor(DType::kF64, {rois.dim(0), x.dim(1), options.height, options.width});
  if (result.size() == 0) return {cast(result, x.dtype())};
  require(x.size() > 0, "an image of shape {} is empty", to_string(x.dims()));
  const std::vector<double> values = as_doubles(x);
  const std::vector<double> regions = as_doubles(rois);
  double* to = result.mutable_data<double>().data();
  for (size_t r = 0; r < batches.size(); ++r) {
    require(batches[r] >= 0 && batches[r] < x.dim(0), "a region belongs to image {} of {}", batches[r], x.dim(0));
    for (int64_t c = 0; c < x.dim(1); ++c, to += options.height * options.width) {
      pool_region(values.data() + (batches[r] * x.dim(1) + c) * x.dim(2) * x.dim(3), {x.dim(2), x.dim(3)}, regions.data() + r * 4, options,
                  to);
    }
  }
  return {cast(result, x.dtype())};
}

}  // namespace

void add_boxes(KernelTable& table) {
  table.add("NonMaxSuppression", non_max_suppression);
  table.add("RoiAlign", roi_align);
}

}  // namespace kvik::onnx
